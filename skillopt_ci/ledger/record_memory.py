"""Records of the run that were read of late."""

from typing import TypeVar

from pydantic import BaseModel

from skillopt_ci.ledger.recent import Recent

_Model = TypeVar("_Model", bound=BaseModel)

#: So many characters of text are kept as records at most.
_ROOM = 2_000_000


class RecordMemory:
    """Remembers the records that texts were read as: a long history is looked at in each step."""

    def __init__(self, room: int = _ROOM) -> None:
        self._known = Recent[tuple[type[BaseModel], str], BaseModel](room)

    def read(self, model: type[_Model], text: str) -> _Model:
        """The record of ``model`` that ``text`` is; raises pydantic's ValidationError if none."""
        known = self._known.get((model, text))
        if isinstance(known, model):
            return known
        record = model.model_validate_json(text)
        self._known.put((model, text), record, len(text))
        return record

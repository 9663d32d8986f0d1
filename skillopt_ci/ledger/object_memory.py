"""Objects of the repository that were read of late."""

import re
from dataclasses import dataclass

from skillopt_ci.ledger.recent import Recent

#: Names that mean the same object for ever, unlike those of refs.
_LASTING = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?(?:\^\{tree\})?")
#: So many bytes are kept at most.
_ROOM = 4_000_000


@dataclass(frozen=True, slots=True)
class Object:
    """What the database has under a name; ``kind`` is blob, tree, commit or tag."""

    oid: str
    kind: str
    content: bytes


class ObjectMemory:
    """Remembers objects by name, in ``room`` bytes; it may be asked from several threads."""

    def __init__(self, room: int = _ROOM) -> None:
        self._known = Recent[str, Object](room)

    def get(self, name: str) -> Object | None:
        """The object of this name, if it is remembered."""
        return self._known.get(name)

    def put(self, name: str, found: Object) -> None:
        """Remember an object; one whose name may come to mean another is not."""
        if _LASTING.fullmatch(name):
            self._known.put(name, found, len(found.content))

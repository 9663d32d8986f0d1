"""Objects that were read of late: one stage after the other reads the same records."""

import re
from dataclasses import dataclass
from threading import Lock

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
    """Remembers objects by name, as long as there is ``room`` (bytes): the oldest go first.

    It may be asked from several threads.
    """

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._known: dict[str, Object] = {}
        self._lock = Lock()

    def get(self, name: str) -> Object | None:
        """The object of this name, if it is remembered."""
        return self._known.get(name)

    def put(self, name: str, found: Object) -> None:
        """Remember an object; one whose name may come to mean another is not."""
        if not _LASTING.fullmatch(name):
            return
        with self._lock:
            if self._known.setdefault(name, found) is not found:
                return
            self._room -= len(found.content)
            while self._room < 0:
                oldest = next(iter(self._known))
                self._room += len(self._known.pop(oldest).content)

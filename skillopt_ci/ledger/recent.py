"""What was read of late: one stage after the other asks for the same."""

from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Remembers values as long as there is ``room`` for their sizes: the oldest go first.

    It may be asked from several threads.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._known: dict[Key, tuple[Value, int]] = {}
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        """The value of this key, if it is remembered."""
        found = self._known.get(key)
        return None if found is None else found[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Remember what ``key`` stands for; the first value of a key stays."""
        with self._lock:
            if key in self._known:
                return
            self._known[key] = value, size
            self._room -= size
            while self._room < 0:
                _, gone = self._known.pop(next(iter(self._known)))
                self._room += gone

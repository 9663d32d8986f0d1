"""A stream of bytes, of which only beginning and end are kept."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Capture:
    """Takes any number of bytes and holds about ``limit`` of them: the first and the last half."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(chunk)
        room = (self.limit + 1) // 2 - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit + 65_536:
            self._trim()

    @property
    def truncated(self) -> bool:
        """Whether something is missing."""
        return self.total > self.limit

    def content(self) -> bytes:
        """Return what is kept, without a mark where something is missing."""
        self._trim()
        return bytes(self._head + self._tail)

    def text(self) -> str:
        """Return what is kept as text, with a line in place of what is missing."""
        self._trim()
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", errors="replace")
        head, tail = (part.decode("utf-8", errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self.total - self.limit} bytes left out …]\n{tail}"

    @property
    def _tail_limit(self) -> int:
        return self.limit // 2

    def _trim(self) -> None:
        surplus = len(self._tail) - self._tail_limit
        if surplus > 0:
            del self._tail[:surplus]

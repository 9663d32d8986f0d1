"""A git process that stays, and answers one request after the other."""

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import IO, TypeVar

Answer = TypeVar("Answer")


class Ended(Exception):
    """The process ended instead of answering; the message is what it wrote on standard error."""


@dataclass(frozen=True, slots=True)
class _Partner:
    """A running process; its complaints go to a file, which never fills up as a pipe does."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]
    complaints: IO[bytes]

    @classmethod
    def begin(cls, command: Sequence[str], environ: Mapping[str, str]) -> "_Partner":
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            process = subprocess.Popen(  # noqa: S603
                command,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
        except BaseException:
            complaints.close()
            raise
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        return cls(process, process.stdin, process.stdout, complaints)

    def exchange(self, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        """Raises Ended if the process is gone."""
        try:
            self.requests.write(request)
            self.requests.flush()
            return answer(self.answers)
        except (BrokenPipeError, EOFError):
            self.process.wait()
            self.complaints.seek(0)
            raise Ended(self.complaints.read().decode("utf-8", "replace").strip()) from None

    def end(self) -> None:
        self.process.terminate()
        with suppress(BrokenPipeError):
            self.requests.close()
        self.answers.close()
        self.complaints.close()
        self.process.wait()


class Conversation:
    """Requests to one process, which begins with the first of them.

    It ends when this object is let go of, and with us, however we end: its standard input ends
    then. One that ended by itself is begun again: Ctrl-C, for one, reaches the whole
    process group.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = command
        self._environ = environ
        self._partner: _Partner | None = None
        self._lock = Lock()

    def ask(self, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        """Send ``request`` and return what ``answer`` reads; that must be the whole answer.

        ``answer`` raises EOFError where the stream ends too early. A request may be sent twice.
        Raises Ended if the process cannot answer, OSError if it cannot be begun.
        """
        with self._lock:
            try:
                return self._exchange(request, answer)
            except Ended:
                return self._exchange(request, answer)

    def _exchange(self, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        partner = self._partner or _Partner.begin(self._command, self._environ)
        # Until the answer is read to its end the process is not ours to ask again: after an
        # interrupt the rest of this answer would be taken for the next one.
        self._partner = None
        try:
            found = partner.exchange(request, answer)
        except BaseException:
            partner.end()
            raise
        self._partner = partner
        return found

    def __del__(self) -> None:
        if self._partner is not None:
            self._partner.end()

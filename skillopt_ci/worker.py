"""Other people's evaluation code, run in processes of its own.

One process loads it once; each attempt is a fork of that process. So attempts run side by side
even where the code allows one evaluation per process, cannot change each other's state or ours,
and can really be ended. The process sees of the environment only what it is allowed to.
"""

import asyncio
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol, cast

from skillopt_ci.confinement import current
from skillopt_ci.errors import EnvironmentFailure, UsageError

_TAIL_BYTES = 2000


class Worker:
    """A running worker; ``tasks`` and ``facts`` are what its side told of itself.

    It belongs to no event loop, and ends when it is closed or this process ends.
    """

    def __init__(
        self,
        module: str,
        options: Mapping[str, object],
        root: Path,
        environ: Mapping[str, str],
        what: str,
    ) -> None:
        """Start it; raises UsageError if ``what`` cannot be loaded."""
        self._folder = TemporaryDirectory(prefix="skillopt-worker-", ignore_cleanup_errors=True)
        self._cell = current().cell(Path(self._folder.name))
        words = (sys.executable, "-P", "-m", "skillopt_ci.worker_process", module)
        command, variables = self._cell.command(words, environ, root)
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=root,
            env=variables,
            start_new_session=True,
        )
        self._orders = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)
        self._names = itertools.count()
        self._ends: dict[int, Future[None]] = {}
        self._lock = threading.Lock()
        ready = self._open(options, root, what)
        self.tasks: Any = ready["tasks"]
        self.facts: Mapping[str, Any] = ready["facts"]
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _open(self, options: Mapping[str, object], root: Path, what: str) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        try:
            with suppress(EnvironmentFailure):  # it ended at once
                self._order({"options": dict(options), "root": str(root)})
            answer = json.loads(self._answers.readline() or "{}")
        finally:
            if "ready" not in answer:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._end()
        if "ready" not in answer:
            raise UsageError(f"{what}: {answer.get('failed', 'the worker ended at once')}")
        ready: dict[str, Any] = answer["ready"]
        return ready

    def _end(self) -> None:
        with suppress(OSError):
            self._orders.close()
        self._process.wait()
        self._answers.close()
        self._folder.cleanup()

    async def attempt(self, job: Mapping[str, object]) -> dict[str, Any]:
        """Have ``job`` done in a process of its own, and return its result.

        Raises :class:`EnvironmentFailure` if it fails. When this is cancelled, nothing of it goes
        on running.
        """
        if not Path(self._folder.name).is_dir():
            raise EnvironmentFailure("the environment's worker process is gone")
        with (
            TemporaryDirectory(dir=self._folder.name, ignore_cleanup_errors=True) as name,
            _opened(Path(name)) as folder,
        ):
            self._cell.give(Path(name))
            number, end = next(self._names), Future[None]()
            with self._lock:
                self._ends[number] = end
            self._order({"attempt": number, "folder": name, "job": dict(job)})
            waiting = asyncio.wrap_future(end)
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                with suppress(EnvironmentFailure):
                    self._order({"kill": number})
                    await waiting
                raise
            return _result(folder)

    def close(self) -> None:
        """End the worker and all that it has under way."""
        with suppress(OSError):
            self._orders.close()
        self._process.wait()
        self._reader.join()
        self._end()

    def _order(self, order: Mapping[str, object]) -> None:
        line = json.dumps(order).encode() + b"\n"
        try:
            self._orders.write(line)
            self._orders.flush()
        except (OSError, ValueError) as error:
            raise EnvironmentFailure("the environment's worker process is gone") from error

    def _listen(self) -> None:
        for line in self._answers:
            with self._lock:
                end = self._ends.pop(json.loads(line)["ended"])
            end.set_result(None)
        with self._lock:
            left, self._ends = self._ends, {}
        for end in left.values():
            end.set_exception(EnvironmentFailure("the environment's worker process is gone"))


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The folder itself, whatever the worker puts at its path."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _result(folder: int) -> dict[str, Any]:
    text = _written(folder, "result.json")
    if not text:
        said = " ".join(_written(folder, "output.txt")[-_TAIL_BYTES:].split()[-40:])
        raise EnvironmentFailure(
            f"the attempt's process ended without a result: {said}".rstrip(": ")
        )
    found = json.loads(text)
    if "result" not in found:
        raise EnvironmentFailure(str(found["failed"]))
    result: dict[str, Any] = found["result"]
    return result


def _written(folder: int, name: str) -> str:
    """What the worker wrote to a file; nothing of another file that it linked to."""
    with suppress(OSError):
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, how, dir_fd=folder), "rb") as stream:
            found = os.fstat(stream.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                return stream.read().decode("utf-8", "replace")
    return ""


class SideError(Exception):
    """The user's configuration or data cannot work; the message is for people."""


class Side(Protocol):
    """The other tool, loaded: its tasks, and a way to attempt one."""

    def tasks(self) -> Any:
        """Return the tasks as JSON."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what else is to be known of the tool, as JSON: versions, prompts."""
        ...

    def attempt(self, job: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Attempt a task in a process of its own and return the result as JSON.

        ``folder`` is empty and thrown away afterwards.
        """
        ...

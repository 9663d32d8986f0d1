"""Run other people's evaluation code in separate processes.

One process loads the code, and a fork of it makes each attempt, or several in sequence if the tool
does so itself. So attempts can run concurrently even if the code allows one evaluation per process,
cannot change our state, can be killed reliably, and see only the permitted environment.

The two sides exchange lines of JSON. First ``{"options": …, "root": …}`` goes to the worker, and
``{"ready": …}`` or ``{"failed": message}`` comes back. Then ``{"attempt": id, "folder": …, "job":
…}`` starts an attempt, ``{"kill": id}`` kills it, and ``{"ended": id}`` reports its end. An attempt
leaves its result in ``result.json`` and its output in ``output.txt`` of its folder. At the end of
the input, everything ends.
"""

import asyncio
import itertools
import json
import os
import selectors
import signal
import socket
import stat
import subprocess
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from skillopt_ci.confinement import current
from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.liveness import Scratch, scratch_folder
from skillopt_ci.program import kill, kill_tree
from skillopt_ci.util import last_line, lasting_import

#: Most bytes read from a fork's files, which may hold anything.
_RESULT_BYTES = 200_000_000
_CHUNK = 65536
#: Seconds that a worker may take to end an attempt or itself before it is killed.
_PATIENCE = 5.0


class WorkerGone(EnvironmentFailure):
    """The worker's process has ended; perhaps another attempt killed it."""

    def __init__(self) -> None:
        super().__init__("the environment's worker process is gone")


class Worker:
    """A running worker, independent of event loops; it is ``gone`` if an attempt killed it."""

    def __init__(
        self,
        module: str,
        options: Mapping[str, object],
        root: Path,
        environ: Mapping[str, str],
        what: str,
        loading_seconds: float = 600.0,
    ) -> None:
        """Start it; raises UsageError if ``what`` cannot be loaded in time."""
        self._folder = scratch_folder("worker")
        self._cell = current().cell(Path(self._folder.name))
        words = (sys.executable, "-P", "-c", f"from {__name__} import serve; serve()", module)
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
        #: Attempts whose end is awaited; None once the listener has stopped.
        self._ends: dict[int, Future[None]] | None = {}
        self._lock = threading.Lock()
        with ExitStack() as undo:
            undo.callback(self._end)
            undo.callback(self._kill)
            with suppress(EnvironmentFailure):  # it ended at once
                self._order({"options": dict(options), "root": str(root)})
            with selectors.DefaultSelector() as first:
                first.register(self._answers, selectors.EVENT_READ)
                if not first.select(loading_seconds):
                    raise UsageError(f"{what}: it did not load within {loading_seconds:g} s")
            answer = json.loads(self._answers.readline() or "{}")
            if "ready" not in answer:
                raise UsageError(f"{what}: {answer.get('failed', 'the worker ended at once')}")
            undo.pop_all()
        self.tasks: Any = answer["ready"]["tasks"]
        self.facts: Mapping[str, Any] = answer["ready"]["facts"]
        self._reader = threading.Thread(target=self._listen, args=(self._ends,), daemon=True)
        self._reader.start()

    def _kill(self) -> None:
        if self._process.poll() is None:
            kill_tree(self._process.pid)
        kill(-self._process.pid)  # its sandbox lasts while anything runs in it

    def _end(self) -> None:
        with suppress(OSError):
            self._orders.close()
        self._process.wait()
        self._answers.close()
        self._folder.cleanup()

    @property
    def gone(self) -> bool:
        alive = self._ends is not None and self._process.poll() is None
        return not (alive and Path(self._folder.name).is_dir())

    async def attempt(self, job: Mapping[str, object]) -> dict[str, Any]:
        """Do ``job`` in its own process, which cancellation kills. Raises EnvironmentFailure."""
        if self.gone:
            raise WorkerGone
        with (
            Scratch(dir=self._folder.name, ignore_cleanup_errors=True) as name,
            ExitStack() as stack,
        ):
            # open the folder itself, in case the worker replaces its path
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            self._cell.give(Path(name))
            number, end = next(self._names), Future[None]()
            with self._lock:
                # a killed worker may still accept orders that it will never answer
                if self._ends is None:
                    raise WorkerGone
                self._ends[number] = end
            self._order({"attempt": number, "folder": name, "job": dict(job)})
            waiting = asyncio.wrap_future(end)
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                with suppress(EnvironmentFailure):
                    self._order({"kill": number})
                    await asyncio.wait([waiting], timeout=_PATIENCE)
                if not waiting.done():
                    self._kill()
                with suppress(EnvironmentFailure):
                    await waiting
                raise
            return _result(folder)

    def close(self) -> None:
        with suppress(OSError):
            self._orders.close()
        self._reader.join(_PATIENCE)
        if self._reader.is_alive():
            self._kill()
            self._reader.join()
        self._end()

    def _order(self, order: Mapping[str, object]) -> None:
        try:
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()
        except (OSError, ValueError) as error:
            raise WorkerGone from error

    def _listen(self, ends: dict[int, Future[None]]) -> None:
        for line in self._answers:
            try:
                with self._lock:
                    end = ends.pop(json.loads(line)["ended"])
            except (ValueError, TypeError, LookupError, RecursionError):
                self._kill()  # an attempt wrote into the pipe
                break
            end.set_result(None)
        with self._lock:
            self._ends = None
        for end in ends.values():
            end.set_exception(WorkerGone())


def _result(folder: int) -> dict[str, Any]:
    if not (text := _written(folder, "result.json")):
        said = " ".join(_written(folder, "output.txt")[-2000:].split()[-40:])
        raise EnvironmentFailure(
            f"the attempt's process ended without a result: {said}".rstrip(": ")
        )
    try:
        found = json.loads(text)
        if "result" not in found:
            raise EnvironmentFailure(str(found["failed"]))
        return {**found["result"]}
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise EnvironmentFailure("the attempt's process left an unusable result") from error


def _written(folder: int, name: str) -> str:
    with suppress(OSError):
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, how, dir_fd=folder), "rb") as stream:
            found = os.fstat(stream.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                return stream.read(_RESULT_BYTES).decode("utf-8", "replace")
    return ""


class Side(ABC):
    """The other tool, loaded: its tasks, if it has any, and a way to attempt one."""

    #: Whether one process may make several attempts.
    shares_process = False

    def tasks(self) -> Any:
        return []

    def facts(self) -> Mapping[str, Any]:
        """Return other facts as JSON: ``identity``, which scores depend on, and prompts."""
        return {}

    @abstractmethod
    def attempt(self, job: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Attempt a task; ``folder`` is empty and is removed afterwards."""


def serve() -> None:
    """In the worker: load the side named on the command line, and serve attempts."""
    # output of the loaded code must not be read as our answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    opening = json.loads(sys.stdin.buffer.readline())
    side: Side | None = None
    try:
        side = lasting_import(sys.argv[1]).open_side(opening["options"], Path(opening["root"]))
        told = json.dumps({"ready": {"tasks": side.tasks(), "facts": dict(side.facts())}})
    except (Exception, SystemExit) as error:  # noqa: BLE001  # told on the other side
        told, side = json.dumps({"failed": described(error)}), None
    answers.write(told.encode() + b"\n")
    answers.flush()
    if side is not None:
        _Server(side, answers.fileno()).serve()


def described(error: BaseException) -> str:
    """Describe an error in one line, with its place unless the message is for people."""
    return str(error) if isinstance(error, UsageError) else last_line(error)


@dataclass(slots=True)
class _Fork:
    pid: int
    line: socket.socket
    attempt: int | None = None

    def kill(self) -> None:
        kill(-self.pid)
        kill(self.pid)  # it may not lead its own group yet


class _Server:
    def __init__(self, side: Side, answers: int) -> None:
        self._side = side
        self._answers = answers
        self._forks: list[_Fork] = []
        self._ready = selectors.DefaultSelector()
        self._wake, wakes = os.pipe()
        for end in (self._wake, wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        try:
            for order in self._orders():
                if "kill" in order:
                    for one in self._forks:
                        if one.attempt == order["kill"]:
                            one.kill()
                    continue
                idle = (one for one in self._forks if one.attempt is None)
                fork = next(idle, None) or self._fork()
                fork.attempt = order["attempt"]
                with suppress(OSError):  # it has died and will be reaped
                    fork.line.sendall(json.dumps(order).encode() + b"\n")
        finally:
            for fork in self._forks:
                fork.kill()
                os.waitpid(fork.pid, 0)

    def _fork(self) -> _Fork:
        sys.stdout.flush()  # otherwise every fork would write the buffered output
        ours, its = socket.socketpair()
        if (pid := os.fork()) == 0:
            os.close(self._answers)  # its code could give answers for other attempts
            for other in (ours, *(fork.line for fork in self._forks)):
                other.close()  # otherwise a fork whose server is gone would wait for orders
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                for order in its.makefile():
                    job = json.loads(order)
                    _attempt(self._side, job["job"], Path(job["folder"]))
                    if not self._side.shares_process:
                        break
                    its.sendall(b".")
            finally:
                os._exit(0)  # skip all clean-up handlers
        its.close()
        fork = _Fork(pid, ours)
        self._forks.append(fork)
        self._ready.register(ours, selectors.EVENT_READ, fork)
        return fork

    def _orders(self) -> Iterator[dict[str, Any]]:
        buffer = b""
        self._ready.register(0, selectors.EVENT_READ)
        self._ready.register(self._wake, selectors.EVENT_READ)
        while True:
            for key, _ in self._ready.select():
                if key.data is not None:
                    if key.data not in self._forks:
                        continue  # reaped on an earlier event in this loop
                    if not key.data.line.recv(1):
                        self._ready.unregister(key.data.line)
                    elif self._side.shares_process and key.data.attempt is not None:
                        self._ended(key.data)
                elif key.fd == self._wake:
                    self._reap()
                else:
                    if not (chunk := os.read(0, _CHUNK)):
                        return
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    yield from map(json.loads, lines)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake, _CHUNK):
                pass
        for fork in tuple(self._forks):
            if os.waitpid(fork.pid, os.WNOHANG)[0]:
                kill(-fork.pid)  # kill what it left running
                self._forks.remove(fork)
                with suppress(KeyError):
                    self._ready.unregister(fork.line)
                fork.line.close()
                if fork.attempt is not None:
                    self._ended(fork)

    def _ended(self, fork: _Fork) -> None:
        os.write(self._answers, json.dumps({"ended": fork.attempt}).encode() + b"\n")
        fork.attempt = None


def _attempt(side: Side, job: Mapping[str, Any], folder: Path) -> None:
    try:
        output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a real file
        # numbers of NumPy are none to JSON
        text = json.dumps({"result": dict(side.attempt(job, folder))}, default=float)
    except BaseException as error:  # noqa: BLE001  # told on the other side
        traceback.print_exc()
        text = json.dumps({"failed": described(error)})
    (folder / "result.new").write_text(text, encoding="utf-8")
    (folder / "result.new").rename(folder / "result.json")
    sys.stdout.flush()

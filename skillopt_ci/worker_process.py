"""The worker: ``python -P -m skillopt_ci.worker_process MODULE``.

It speaks lines of JSON. First ``{"options": …, "root": …}`` comes in, and ``{"ready": …}`` or
``{"failed": message}`` goes out. Then ``{"attempt": id, "folder": …, "job": …}`` starts a fork,
``{"kill": id}`` ends it, and ``{"ended": id, "status": …}`` tells that it is gone. A fork leaves
its result in ``result.json`` and what it printed in ``output.txt`` of its folder. At the end of
the input everything ends.
"""

import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillopt_ci.worker import Side, SideError

_CHUNK = 65536


def main() -> None:
    """Load the side that the command line names, and serve attempts."""
    # what the loaded code prints must not pass for our answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    opening = json.loads(sys.stdin.buffer.readline())
    side: Side | None = None
    try:
        module = importlib.import_module(sys.argv[1])
        side = module.open_side(opening["options"], Path(opening["root"]))
        ready = {"tasks": side.tasks(), "facts": dict(side.facts())}
        told = json.dumps({"ready": ready}, allow_nan=False)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # told on the other side
        told, side = json.dumps({"failed": described(error)}), None
    answers.write(told + "\n")
    answers.flush()
    if side is not None:
        _Server(side, answers.fileno()).serve()


def described(error: BaseException) -> str:
    """Say what went wrong in one line, and where unless the message is for people already."""
    if isinstance(error, SideError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"


class _Server:
    def __init__(self, side: Side, answers: int) -> None:
        self._side = side
        self._answers = answers
        self._children: dict[int, int] = {}
        self._wake, wakes = os.pipe()
        for end in (self._wake, wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Take orders until there are no more, then leave nothing running."""
        try:
            for order in self._orders():
                match order:
                    case {"attempt": name, "folder": folder, "job": job}:
                        self._start(name, Path(folder), job)
                    case {"kill": name}:
                        self._kill(name)
        finally:
            for name in tuple(self._children.values()):
                self._kill(name)

    def _orders(self) -> Iterator[dict[str, Any]]:
        buffer = b""
        with selectors.DefaultSelector() as ready:
            ready.register(0, selectors.EVENT_READ)
            ready.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fd == self._wake:
                        self._reap()
                        continue
                    chunk = os.read(0, _CHUNK)
                    if not chunk:
                        return
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    yield from map(json.loads, lines)

    def _start(self, name: int, folder: Path, job: Mapping[str, Any]) -> None:
        sys.stdout.flush()  # or what waits to be written would be, in every fork
        pid = os.fork()
        if pid == 0:
            _attempt(self._side, job, folder)
        self._children[pid] = name

    def _kill(self, name: int) -> None:
        for pid, own in self._children.items():
            if own == name:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # it may not lead a group of its own yet

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake, _CHUNK):
                pass
        for pid in tuple(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what it left running
                told = {"ended": self._children.pop(pid), "status": status}
                os.write(self._answers, json.dumps(told).encode() + b"\n")


def _attempt(side: Side, job: Mapping[str, Any], folder: Path) -> None:
    """In the fork: do the work, leave the result, and end without anybody's clean-up."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        for old, new in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(old, new)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a real file
        result = {"result": dict(side.attempt(job, folder))}
        text = json.dumps(result, allow_nan=False)
    except BaseException as error:  # noqa: BLE001  # told on the other side
        traceback.print_exc()
        text = json.dumps({"failed": described(error)})
    (folder / "result.new").write_text(text, encoding="utf-8")
    (folder / "result.new").rename(folder / "result.json")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

"""Our side of the worker: start it once, and have it make attempts."""

import asyncio
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

from skillopt_ci.errors import UsageError
from skillopt_ci.program import tail
from skillopt_ci.rollout.environment import EnvironmentFailure

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
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-P", "-m", "skillopt_ci.environments.worker.main", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=root,
            env=dict(environ),
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
                self._process.kill()
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

    async def attempt(self, job: Mapping[str, object]) -> dict[str, Any]:
        """Have ``job`` done in a process of its own, and return its result.

        Raises :class:`EnvironmentFailure` if it fails. When this is cancelled, nothing of it goes
        on running.
        """
        with TemporaryDirectory(prefix="skillopt-attempt-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
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


def _result(folder: Path) -> dict[str, Any]:
    file = folder / "result.json"
    if not file.exists():
        said = _said(folder)
        raise EnvironmentFailure(f"the attempt's process ended without a result{said}")
    found = json.loads(file.read_text(encoding="utf-8"))
    if "result" not in found:
        raise EnvironmentFailure(str(found["failed"]))
    result: dict[str, Any] = found["result"]
    return result


def _said(folder: Path) -> str:
    output = folder / "output.txt"
    text = " ".join(tail(output, _TAIL_BYTES).split()[-40:]) if output.exists() else ""
    return f": {text}" if text else ""

"""Every kind of computer that this machine can have, and what tests do with one."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from skillopt_ci.computer.computer import Computer, Computers, ComputerSpec
from skillopt_ci.computer.docker import Containers
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.computer.sandbox import Sandboxes
from skillopt_ci.computer.sandbox_limits import usable_hierarchies
from skillopt_ci.errors import ComputerUnavailable
from skillopt_ci.program import CommandResult

Result = TypeVar("Result")

#: "uncounted" is the sandbox as it is where no control groups can be made.
CONFINED = ("sandbox", "uncounted", "docker")
EVERY = ("unconfined", *CONFINED)

SPEC = ComputerSpec(memory_mb=96, processes=48, disk_mb=16)


@cache
def computers(kind: str) -> Computers:
    """Return a kind that was found to work here; skip the test if it does not."""
    made = _made(kind, os.environ.get("PATH", os.defpath))
    try:
        made.check()
    except ComputerUnavailable as error:
        pytest.skip(f"{kind}: {error}")
    return made


def _made(kind: str, path: str) -> Computers:
    if kind == "unconfined":
        return Unconfined(path)
    if kind == "uncounted":
        return Sandboxes(path, hierarchies=lambda: None)
    if kind == "docker":
        image = os.environ.get("SKILLOPT_CI_TEST_IMAGE")
        if not image:
            pytest.skip('docker: eval "$(scripts/docker-daemon.sh FOLDER)" gives an engine')
        return Containers(dict(os.environ), image)
    if usable_hierarchies() is None:
        pytest.skip("sandbox: no control groups can be made here")
    return Sandboxes(path)


@dataclass(frozen=True)
class Desk:
    """An open computer, for tests that do not run in an event loop."""

    kind: str
    computer: Computer
    runner: asyncio.Runner

    def sh(self, text: str, timeout: float = 60, **options: object) -> CommandResult:
        return self.run("/bin/sh", "-c", text, timeout=timeout, **options)

    def python(self, text: str, *arguments: object, timeout: float = 60) -> CommandResult:
        return self.run("python3", "-c", text, *map(str, arguments), timeout=timeout)

    def run(self, *command: str, timeout: float = 60, **options: object) -> CommandResult:
        return self.do(self.computer.run(command, timeout=timeout, **options))  # type: ignore[arg-type]

    def do(self, work: Awaitable[Result]) -> Result:
        async def wait() -> Result:
            return await work

        return self.runner.run(wait())

    def write(self, path: str, content: bytes, **options: bool) -> None:
        self.do(self.computer.write(path, content, **options))

    def read(self, path: str, **options: int) -> bytes:
        return self.do(self.computer.read(path, **options))

    def export(self, *paths: str, max_bytes: int = 1_000_000) -> bytes:
        return self.do(self.computer.export(paths, max_bytes=max_bytes))


@contextmanager
def desk(kind: str, **changes: object) -> Iterator[Desk]:
    """Open a small computer; ``changes`` are to its spec."""
    kinds = computers(kind)
    with asyncio.Runner() as runner:
        opening = kinds.open(replace(SPEC, **changes))  # type: ignore[arg-type]
        computer = runner.run(opening.__aenter__())  # type: ignore[arg-type]
        try:
            yield Desk(kind, computer, runner)
        finally:
            runner.run(opening.__aexit__(None, None, None))  # type: ignore[arg-type]


def processes_with(marker: str) -> list[int]:
    """Return the processes of this machine that have ``marker`` among their words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in words:
                found.append(int(entry.name))
    return found


def eventually(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Tell whether something comes true in time; it does at once on a machine that is not busy."""
    deadline = time.monotonic() + seconds
    while not (holds := true()) and time.monotonic() < deadline:
        time.sleep(0.01)  # a busy machine is to do what is awaited
    return holds


def is_running(pid: int) -> bool:
    """Tell whether a process works; one that has ended does not, even if nobody reaps it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def assert_gone(pids: Path) -> None:
    """Assert that the processes end whose numbers are in a file."""
    numbers = [int(pid) for pid in pids.read_text().split()]
    assert eventually(lambda: not any(map(is_running, numbers)))

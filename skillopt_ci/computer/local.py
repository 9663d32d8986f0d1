"""A folder and nothing around it: for people who trust what they run, or confine it elsewhere."""

import asyncio
import posixpath
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from skillopt_ci.computer import process
from skillopt_ci.computer.computer import (
    HOME,
    WORKDIR,
    Computer,
    ComputerFailure,
    ComputerSpec,
    ComputerUnavailable,
)
from skillopt_ci.computer.process import kill_marked
from skillopt_ci.computer.shell import START, Command, Ended, ShellComputer
from skillopt_ci.confinement import Cell, current


@dataclass(frozen=True, slots=True)
class Unconfined:
    """Computers that confine nothing: a temporary folder each, time as the only limit."""

    search_path: str
    name: str = "unconfined"
    caveat: str = (
        "Commands were not confined: they could read, change and reach all that skillopt-ci can."
    )

    def check(self) -> None:
        """Raise ComputerUnavailable where there is no shell."""
        if shutil.which("sh", path=self.search_path) is None:
            raise ComputerUnavailable("No program `sh` is found in PATH.")

    def open(self, spec: ComputerSpec) -> AbstractAsyncContextManager[Computer]:
        """Make a folder; at the end remove it, and kill what still runs with it as its home."""
        return self._opened(spec)

    @asynccontextmanager
    async def _opened(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        with tempfile.TemporaryDirectory(prefix="skillopt-ci-", ignore_cleanup_errors=True) as name:
            for inside in _inside(Path(name)).values():
                Path(inside).mkdir()
            cell = await asyncio.to_thread(lambda: current().cell(Path(name)))
            folder = _Folder(cell, self.search_path, spec.environ)
            try:
                yield ShellComputer(folder, folder.place)
            finally:
                # What went into a session of its own before the command that started it ended.
                kill_marked("HOME", folder.places[HOME])


@dataclass(frozen=True, slots=True)
class _Folder:
    cell: Cell
    search_path: str
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        return _inside(self.cell.folder)

    def place(self, path: str) -> str:
        """Return where a path of the contract is on this machine."""
        normal = posixpath.normpath(path)
        for inside, outside in self.places.items():
            if normal == inside or normal.startswith(f"{inside}/"):
                return outside + normal.removeprefix(inside)
        return path

    async def __call__(self, command: Command) -> Ended:
        basic = {"PATH": self.search_path, "HOME": self.places[HOME], "LANG": "C.UTF-8"}
        arguments, environ = self.cell.command(
            ("/bin/sh", "-c", START, "sh", command.cwd, *command.arguments),
            {**basic, **self.environ, **command.environ},
            self.cell.folder,
        )
        try:
            done = await process.execute(
                arguments,
                stdin=command.stdin,
                environ=environ,
                cwd=self.cell.folder,
                timeout=command.timeout,
                output_bytes=command.output_bytes,
            )
        except (OSError, ValueError) as error:
            raise ComputerFailure(f"A command could not be started: {error}.") from error
        status = 128 - done.status if done.status < 0 else done.status
        return Ended(status, done.stdout, done.stderr, done.timed_out, seconds=done.seconds)


def _inside(root: Path) -> dict[str, str]:
    return {WORKDIR: str(root / "workspace"), HOME: str(root / "home")}

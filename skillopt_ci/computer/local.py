"""An unconfined folder: for people who trust what they run, or confine it by other means."""

import asyncio
import posixpath
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.computer.computer import HOME, START, WORKDIR, Command, Computer, ComputerSpec
from skillopt_ci.confinement import current
from skillopt_ci.errors import ComputerUnavailable
from skillopt_ci.liveness import scratch_folder
from skillopt_ci.program import CommandResult, execute, kill_marked

#: The variable that tells a computer's processes apart; no task has a reason to change it.
_MARK = "SKILLOPT_CI_COMPUTER"


@dataclass(frozen=True, slots=True)
class Unconfined:
    """Computers without confinement: a temporary folder each, with a timeout as the only limit."""

    search_path: str
    name: str = "unconfined"
    caveat: str = (
        "Commands were not confined: they could read, change and reach all that skillopt-ci can."
    )

    def check(self) -> None:
        if shutil.which("sh", path=self.search_path) is None:
            raise ComputerUnavailable("No program `sh` is found in PATH.")

    @asynccontextmanager
    async def open(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        with scratch_folder("computer") as name:
            folders = {WORKDIR: f"{name}/workspace", HOME: f"{name}/home"}
            for folder in folders.values():
                Path(folder).mkdir()
            cell = await asyncio.to_thread(lambda: current().cell(Path(name)))
            basic = {"PATH": self.search_path, "HOME": folders[HOME], "LANG": "C.UTF-8"}

            def locate(path: str) -> str:
                normal = posixpath.normpath(path)
                for inside, outside in folders.items():
                    if normal == inside or normal.startswith(f"{inside}/"):
                        return outside + normal.removeprefix(inside)
                return path

            async def shell(command: Command) -> CommandResult:
                arguments, environ = cell.command(
                    ("/bin/sh", "-c", START, "sh", command.cwd, *command.arguments),
                    {**basic, **spec.environ, **command.environ, _MARK: name},
                    cell.folder,
                    needs=(command.arguments[0], *map(str, spec.readable)),
                )
                return await execute(
                    arguments,
                    stdin=command.stdin,
                    environ=environ,
                    cwd=cell.folder,
                    timeout=command.timeout,
                    output_bytes=command.output_bytes,
                )

            try:
                yield Computer(shell, locate)
            finally:
                # a process in a session of its own outlives its command, unless in a sandbox
                if cell.confinement.kind != "sandbox":
                    kill_marked(_MARK, name)

"""A command in a sandbox: started into the holder's namespaces, under bubblewrap and limits."""

import asyncio
import json
import math
import os
import platform
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.aio import undisturbed
from skillopt_ci.computer import process
from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.errors import ComputerFailure
from skillopt_ci.computer.sandbox.bubblewrap import bubblewrap_options, inner_environment
from skillopt_ci.computer.sandbox.control_group import ControlGroup
from skillopt_ci.computer.sandbox.holder import STAGE, Holder
from skillopt_ci.computer.sandbox.programs import Programs
from skillopt_ci.computer.sandbox.rights import Rights
from skillopt_ci.computer.sandbox.seccomp import seccomp_filter
from skillopt_ci.computer.sealed_file import sealed_file
from skillopt_ci.computer.shell_computer import START, Command, Ended

#: Puts itself into the groups that are named first, then becomes the rest of the words.
_JOIN = """\
number=$1; shift
while [ "$number" -gt 0 ]; do
  echo 0 > "$1/cgroup.procs" || exit 125
  shift; number=$((number - 1))
done
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class SandboxShell:
    """Runs the commands of one computer. Without ``group`` limits hold for each process alone."""

    spec: ComputerSpec
    programs: Programs
    rights: Rights
    holder: Holder
    group: ControlGroup | None

    async def __call__(self, command: Command) -> Ended:
        """Run a command; see :class:`skillopt_ci.computer.shell_computer.Shell`."""
        before = self._counts()
        status, done = await self._execute(command)
        limit = self._limit_reached(before, status)
        if done.timed_out:
            status = 137
        elif status is None:
            status = self._not_begun(done, limit)
        return Ended(status, done.stdout, done.stderr, done.timed_out, limit, done.seconds)

    async def _execute(self, command: Command) -> tuple[int | None, process.Execution]:
        """Return the command's status, None if it has none, and how bubblewrap ended."""
        environ = inner_environment(self.spec, command.environ)
        calls = seccomp_filter(platform.machine(), counted=self.group is not None)
        with sealed_file(calls) as filter_fd, _pipe() as sync, _pipe() as status:
            options = bubblewrap_options(
                self.spec,
                environ,
                filter_fd=filter_fd,
                sync_fd=sync.sink,
                status_fd=status.sink,
            )
            with sealed_file(options) as options_fd:
                try:
                    done = await process.execute(
                        self._arguments(options_fd, command),
                        stdin=command.stdin,
                        environ={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                        cwd=Path("/"),
                        timeout=command.timeout,
                        output_bytes=command.output_bytes,
                        pass_fds=(filter_fd, sync.sink, status.sink, options_fd),
                    )
                except (OSError, ValueError) as error:
                    raise ComputerFailure(f"The sandbox cannot be entered: {error}.") from error
                finally:
                    # The end of all that the command started, however it came about.
                    await undisturbed(sync.drained())
            return _exit_code(await status.drained()), done

    def _arguments(self, options_fd: int, command: Command) -> tuple[str, ...]:
        folders = () if self.group is None else self.group.folders
        return (
            *("/bin/sh", "-c", _JOIN, "sh", str(len(folders)), *map(str, folders)),
            *self.holder.entering(self.programs, self.rights),
            *self._processors(),
            *(self.programs.bwrap, "--args", str(options_fd), "--"),
            *(self.programs.prlimit, *self._limits(), "--"),
            *("/bin/sh", "-c", START, "sh", command.cwd, *command.arguments),
        )

    def _processors(self) -> tuple[str, ...]:
        """Bind the command to as many processors as it may use, where no group meters them."""
        if self.group is not None:
            return ()
        allowed = sorted(os.sched_getaffinity(0))
        chosen = random.sample(allowed, min(len(allowed), math.ceil(self.spec.cpus)))
        return (self.programs.taskset, "--cpu-list", ",".join(map(str, chosen)))

    def _limits(self) -> Iterator[str]:
        yield "--core=0"
        if self.group is None:
            yield f"--nproc={self.spec.processes}"
            yield f"--as={self.spec.memory_mb * 1024**2}"
            yield f"--fsize={self.spec.disk_mb * 1024**2}"

    def _counts(self) -> dict[str, int]:
        if self.group is None:
            return {}
        return {limit: self.group.count(limit) for limit in ("memory", "processes")}

    def _limit_reached(self, before: dict[str, int], status: int | None) -> str:
        if status == 0:
            return ""
        after = self._counts()
        reached = [limit for limit, count in before.items() if after[limit] > count]
        if not reached and self._disk_is_full():
            return "disk"
        return reached[0] if reached else ""

    def _disk_is_full(self) -> bool:
        stage = os.statvfs(f"/proc/{self.holder.pid}/root{STAGE}")
        return stage.f_bavail == 0 or stage.f_favail == 0

    def _not_begun(self, done: process.Execution, limit: str) -> int:
        if limit:
            return 137
        reason = done.stderr.text().strip() or f"it ended with status {done.status}"
        raise ComputerFailure(f"The sandbox broke down: {reason}")


@dataclass(slots=True)
class _Pipe:
    source: int
    sink: int

    async def drained(self) -> bytes:
        """Close our end, and return what was written until all others were closed."""
        os.close(self.sink)
        self.sink = -1
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self.source, "rb", buffering=0)
        )
        self.source = -1
        try:
            return await reader.read()
        finally:
            transport.close()


@contextmanager
def _pipe() -> Iterator[_Pipe]:
    pipe = _Pipe(*os.pipe())
    try:
        yield pipe
    finally:
        for descriptor in (pipe.source, pipe.sink):
            if descriptor >= 0:
                os.close(descriptor)


def _exit_code(status: bytes) -> int | None:
    """Return what bubblewrap reports of the command: a JSON object for each event."""
    reports: Sequence[dict[str, int]] = [json.loads(line) for line in status.splitlines()]
    return next((one["exit-code"] for one in reports if "exit-code" in one), None)

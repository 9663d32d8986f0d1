"""Computers out of Linux namespaces, made with bubblewrap."""

import asyncio
import json
import math
import os
import platform
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.aio import shielded
from skillopt_ci.computer import process
from skillopt_ci.computer.computer import (
    HOME,
    WORKDIR,
    Computer,
    ComputerFailure,
    ComputerSpec,
    ComputerUnavailable,
    Network,
    sealed_file,
)
from skillopt_ci.computer.probe import probe
from skillopt_ci.computer.sandbox_limits import (
    STAGE,
    ControlGroup,
    Hierarchy,
    NamespaceHolder,
    Programs,
    Rights,
    control_group,
    find_programs,
    namespace_holder,
    own_rights,
    seccomp_filter,
    sweep,
    usable_hierarchies,
)
from skillopt_ci.computer.shell import START, Command, Ended, ShellComputer

# What one command sees: the arguments of bubblewrap, see bwrap(1).

#: Programs of the host. On most systems all but the first are links into the first.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: What programs need of /etc: the linker's cache, which program a name stands for, the time zone,
#: and whom to trust. None of it is secret.
_SETTINGS = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
)
_OWN_SETTINGS = ("passwd", "group", "hosts", "nsswitch.conf")
_AGENT = "1000"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def bubblewrap_options(
    spec: ComputerSpec, environ: Mapping[str, str], *, filter_fd: int, sync_fd: int, status_fd: int
) -> bytes:
    """Return the options as `bwrap --args` reads them: so no variable is seen in a process list."""
    return b"".join(
        os.fsencode(word) + b"\0"
        for words in _options(spec, environ, filter_fd, sync_fd, status_fd)
        for word in words
    )


def _options(
    spec: ComputerSpec, environ: Mapping[str, str], filter_fd: int, sync_fd: int, status_fd: int
) -> Iterator[tuple[str, ...]]:
    yield "--unshare-all", "--unshare-user", "--disable-userns"
    if spec.network is Network.OPEN:
        yield ("--share-net",)
    yield "--uid", _AGENT, "--gid", _AGENT, "--hostname", "computer", "--cap-drop", "ALL"
    yield "--die-with-parent", "--new-session", "--clearenv"
    yield "--seccomp", str(filter_fd)
    yield "--sync-fd", str(sync_fd)
    yield "--json-status-fd", str(status_fd)
    yield from _files(spec)
    for name, value in environ.items():
        yield "--setenv", name, value
    yield "--chdir", "/"


def _files(spec: ComputerSpec) -> Iterator[tuple[str, ...]]:
    for folder in _PROGRAMS:
        if Path(folder).is_symlink():
            yield "--symlink", os.fspath(Path(folder).readlink()), folder
        elif Path(folder).is_dir():
            yield "--ro-bind", folder, folder
    yield "--dir", "/etc", "--dir", "/home"
    for name in _OWN_SETTINGS:
        yield "--ro-bind", f"{STAGE}/etc/{name}", f"/etc/{name}"
    for file in _SETTINGS:
        yield "--ro-bind-try", file, file
    if spec.network is Network.OPEN:
        yield "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"
    yield "--proc", "/proc"
    yield "--dev", "/dev"
    yield "--bind", f"{STAGE}/shm", "/dev/shm"  # noqa: S108
    yield "--bind", f"{STAGE}/tmp", "/tmp"  # noqa: S108
    yield "--bind", f"{STAGE}/home", HOME
    yield "--bind", f"{STAGE}/workspace", WORKDIR
    for number, path in enumerate(spec.readable):
        yield "--ro-bind", f"{STAGE}/readable/{number}", str(path)
    # Without this both would be file systems in memory to write to, of no limited size.
    yield "--remount-ro", "/dev"
    yield "--remount-ro", "/"


def inner_environment(spec: ComputerSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables that a command sees."""
    basic = {"PATH": _PATH, "HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
    return {**basic, **spec.environ, **environ}


# A command in a sandbox: started into the holder's namespaces, under bubblewrap and limits.

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
    holder: NamespaceHolder
    group: ControlGroup | None

    async def __call__(self, command: Command) -> Ended:
        """Run a command; see :class:`skillopt_ci.computer.shell.Shell`."""
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
                    await shielded(sync.drained())
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


# The kind `sandbox`: confined by the Linux kernel on this machine, without an engine.

#: The first Linux that counts the processes of a user for each user namespace.
_COUNTING_KERNEL = (5, 14)
_ADVICE = (
    "It needs bubblewrap 0.8 or newer, and user namespaces, which containers mostly forbid. On"
    " Ubuntu 24.04 and later: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0."
    " Otherwise set `rollout.computer.type` to docker, or to unconfined if you trust what is run."
)


def _hierarchies() -> tuple[Hierarchy, ...] | None:
    return usable_hierarchies()


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """Computers made with bubblewrap.

    Where control groups can be made they limit a computer as a whole; elsewhere each of its
    processes is limited. ``hierarchies`` says where.
    """

    search_path: str
    hierarchies: Callable[[], tuple[Hierarchy, ...] | None] = _hierarchies
    name: str = "sandbox"

    @property
    def caveat(self) -> str:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        if self.hierarchies() is not None:
            return ""
        return (
            "Memory was limited for each process by itself, processors were limited to a whole"
            " number: this system does not let us make control groups."
        )

    def check(self) -> None:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        find_programs(self.search_path)
        seccomp_filter(platform.machine(), counted=True)
        hierarchies = self.hierarchies()
        sweep(hierarchies or ())
        if hierarchies is None and _kernel() < _COUNTING_KERNEL:
            raise ComputerUnavailable(
                "This Linux cannot limit the number of processes in a sandbox without root.",
                hint="Linux 5.14 can. Or run as root, or set `rollout.computer.type: docker`.",
            )
        try:
            asyncio.run(probe(self))
        except ComputerFailure as error:
            raise ComputerUnavailable(error.message, hint=_ADVICE) from error

    def open(self, spec: ComputerSpec) -> AbstractAsyncContextManager[Computer]:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        return self._opened(spec)

    @asynccontextmanager
    async def _opened(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        _refuse_missing(spec)
        programs, rights = find_programs(self.search_path), own_rights()
        hierarchies = self.hierarchies()
        with ExitStack() as limits:
            group = hierarchies and limits.enter_context(control_group(hierarchies, spec))
            async with namespace_holder(
                programs, rights, disk_mb=spec.disk_mb, readable=spec.readable
            ) as held:
                yield ShellComputer(SandboxShell(spec, programs, rights, held, group or None))


def _refuse_missing(spec: ComputerSpec) -> None:
    missing = [str(path) for path in spec.readable if not path.exists()]
    if missing:
        raise ComputerUnavailable(
            f"`rollout.computer.readable` names {', '.join(missing)}, which does not exist."
        )


def _kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))

"""Computers made of Linux namespaces with bubblewrap, without an engine and without root.

A *holder* process owns namespaces with the computer's files, in memory. Each command joins these
namespaces, control groups and limits, and runs under bubblewrap as a user without rights.
"""

import asyncio
import json
import math
import os
import platform
import random
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt_ci.aio import shielded
from skillopt_ci.computer.computer import (
    HOME,
    SEARCH_PATH,
    START,
    WORKDIR,
    Command,
    Computer,
    ComputerSpec,
    probe,
)
from skillopt_ci.computer.sandbox_limits import (
    ControlGroup,
    Hierarchy,
    control_group,
    seccomp_filter,
    sweep,
    times_exceeded,
    usable_hierarchies,
)
from skillopt_ci.confinement import FIRST_USER, USERS, system_view
from skillopt_ci.errors import ComputerFailure, ComputerUnavailable
from skillopt_ci.program import CommandResult, execute, pipe_reader, sealed_file, started

#: Required programs, with their Debian packages.
_PACKAGES = {
    "bwrap": "bubblewrap",
    **dict.fromkeys(("unshare", "nsenter", "prlimit", "setpriv", "taskset"), "util-linux"),
    "mount": "mount",
}
#: The first Linux version that counts a user's processes separately in each user namespace.
_COUNTING_KERNEL = (5, 14)
_ADVICE = (
    "It needs bubblewrap 0.8 or newer, and user namespaces, which containers mostly forbid. On"
    " Ubuntu 24.04 and later: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0."
    " Otherwise set `rollout.computer.type` to docker, or to unconfined if you trust what is run."
)

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_OWN_SETTINGS = ("passwd", "group", "hosts", "nsswitch.conf")
_AGENT = "1000"
_BASIC = {"PATH": SEARCH_PATH, "HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108

#: Where the holder mounts the computer's files: every Linux has this folder, without programs.
_STAGE = "/sys"
_READY = b"ready\n"
_FILES_PER_MB = 128
_LEAST_FILES = 16_384
_PATIENCE = 60.0

#: The holder. Arguments: megabytes, number of files, owner, readable paths. While its shell waits
#: for `cat`, it also reaps orphaned processes.
_HOLD = """\
set -eu
umask 022
mount -t tmpfs -o "size=$1m,nr_inodes=$2,mode=0755,nosuid,nodev" tmpfs /sys
owner=$3
shift 3
cd /sys
mkdir workspace home tmp shm readable etc
chmod 1777 tmp shm
echo "root:x:0:0:root:/nonexistent:/bin/false
agent:x:1000:1000:agent:/home/agent:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false" > etc/passwd
echo "root:x:0:
agent:x:1000:
nogroup:x:65534:" > etc/group
echo "127.0.0.1 localhost
::1 localhost" > etc/hosts
echo "passwd: files
group: files
hosts: files dns" > etc/nsswitch.conf
chown "$owner:$owner" workspace home tmp shm
number=0
for source in "$@"; do
  if [ -d "$source" ]; then mkdir "readable/$number"; else : > "readable/$number"; fi
  mount --rbind -- "$source" "readable/$number"
  number=$((number + 1))
done
echo ready
exec 3<&0
cat <&3 > /dev/null &
wait "$!"
"""
#: Joins the control groups in the first arguments, then becomes the rest of the words.
_JOIN = """\
number=$1; shift
while [ "$number" -gt 0 ]; do
  echo 0 > "$1/cgroup.procs" || exit 125
  shift; number=$((number - 1))
done
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """Computers made with bubblewrap; without control groups, limits apply to each process."""

    search_path: str
    hierarchies: Callable[[], tuple[Hierarchy, ...] | None] = usable_hierarchies
    name: str = "sandbox"

    @property
    def caveat(self) -> str:
        uncounted = (
            "Memory was limited for each process by itself, processors were limited to a whole"
            " number: this system does not let us make control groups."
        )
        return uncounted if self.hierarchies() is None else ""

    def check(self) -> None:
        find_programs(self.search_path)
        seccomp_filter(platform.machine(), counted=True)
        hierarchies = self.hierarchies()
        sweep(hierarchies or ())
        kernel = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
        if hierarchies is None and kernel < _COUNTING_KERNEL:
            raise ComputerUnavailable(
                "This Linux cannot limit the number of processes in a sandbox without root.",
                hint="Linux 5.14 can. Or run as root, or set `rollout.computer.type: docker`.",
            )
        try:
            asyncio.run(probe(self))
        except ComputerFailure as error:
            raise ComputerUnavailable(error.message, hint=_ADVICE) from error

    @asynccontextmanager
    async def open(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        if missing := [str(path) for path in spec.readable if not path.exists()]:
            raise ComputerUnavailable(
                f"`rollout.computer.readable` names {', '.join(missing)}, which does not exist."
            )
        programs = find_programs(self.search_path)
        # Root does not enter: it becomes a user that owns nothing, a different one each time.
        user = FIRST_USER + secrets.randbelow(USERS) if os.geteuid() == 0 else None
        hierarchies = self.hierarchies()
        with ExitStack() as limits:
            group = hierarchies and limits.enter_context(control_group(hierarchies, spec))
            async with _namespace_holder(programs, user, spec) as holder:
                yield Computer(SandboxShell(spec, programs, user, holder, group or None))


def find_programs(search_path: str) -> Mapping[str, str]:
    """The path of each program. Raises ComputerUnavailable, which names packages to install."""
    # Ordinary users' PATH often lacks the folders of administrative programs.
    administrative = (folder.replace("bin", "sbin") for folder in search_path.split(os.pathsep))
    path = os.pathsep.join((search_path, *administrative))
    found = {name: shutil.which(name, path=path) for name in _PACKAGES}
    if missing := [name for name, file in found.items() if file is None]:
        packages = " ".join(sorted({_PACKAGES[name] for name in missing}))
        raise ComputerUnavailable(
            f"`rollout.computer.type: sandbox` needs the program {', '.join(missing)}, "
            "which is not installed.",
            hint=f"Install it: apt-get install {packages} (Linux only). Or use `type: docker`.",
        )
    return {name: file for name, file in found.items() if file is not None}


@asynccontextmanager
async def _namespace_holder(
    programs: Mapping[str, str], user: int | None, spec: ComputerSpec
) -> AsyncIterator[int]:
    namespaces = () if user is not None else ("--user", "--map-root-user")
    files = max(_LEAST_FILES, spec.disk_mb * _FILES_PER_MB)
    process = await started(
        asyncio.create_subprocess_exec(
            *(programs["unshare"], *namespaces, "--mount", "--pid", "--fork"),
            *("--kill-child", "--mount-proc", "--", "/bin/sh", "-c", _HOLD, "sh"),
            *(str(spec.disk_mb), str(files), str(user or 0), *map(str, spec.readable)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": _SYSTEM_PATH},
            cwd="/",
            start_new_session=True,
        )
    )
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018
    try:
        try:
            async with asyncio.timeout(_PATIENCE):
                if await process.stdout.readline() != _READY:
                    errors = (await process.stderr.read()).decode("utf-8", errors="replace").strip()
                    raise ComputerFailure(
                        f"The sandbox did not start: {errors or 'no reason was given'}"
                    )
        except TimeoutError:
            process.kill()
            raise ComputerFailure(f"The sandbox did not start within {_PATIENCE:g} s.") from None
        yield process.pid
    finally:
        process.stdin.close()
        await shielded(process.communicate())


@dataclass(frozen=True, slots=True)
class SandboxShell:
    """Runs the commands of one computer; ``user`` replaces root, if we are root."""

    spec: ComputerSpec
    programs: Mapping[str, str]
    user: int | None
    holder: int
    group: ControlGroup | None

    async def __call__(self, command: Command) -> CommandResult:
        before = self._counts()
        status, done = await self._execute(command)
        limit = ""
        if status != 0:
            after = self._counts()
            reached = [limit for limit, count in before.items() if after[limit] > count]
            stage = os.statvfs(f"/proc/{self.holder}/root{_STAGE}")
            if stage.f_bavail == 0 or stage.f_favail == 0:
                reached.append("disk")
            limit = next(iter(reached), "")
        if done.timed_out or (status is None and limit):
            status = 137
        elif status is None:
            reason = done.stderr.strip() or f"it ended with status {done.exit_code}"
            raise ComputerFailure(f"The sandbox broke down: {reason}")
        return replace(done, exit_code=status or 0, limit=limit)

    def _counts(self) -> dict[str, int]:
        return {name: times_exceeded(self.group or (), name) for name in ("memory", "processes")}

    async def _execute(self, command: Command) -> tuple[int | None, CommandResult]:
        calls = seccomp_filter(platform.machine(), counted=self.group is not None)
        environ = {**_BASIC, **self.spec.environ, **command.environ}
        async with _pipe() as (sync, synced), _pipe() as (status, reported):
            with sealed_file(calls) as filter_fd:
                words = bubblewrap_options(
                    self.spec, environ, filter_fd=filter_fd, sync_fd=sync, status_fd=status
                )
                # Passed as a file, so that process lists do not show variables.
                options = b"".join(os.fsencode(word) + b"\0" for word in words)
                if options.count(b"\0") > len(words):  # a variable would add options
                    raise ComputerFailure("A variable of the computer has a zero byte.")
                with sealed_file(options) as options_fd:
                    try:
                        done = await execute(
                            self._arguments(options_fd, command),
                            stdin=command.stdin,
                            environ={"PATH": _SYSTEM_PATH},
                            cwd=Path("/"),
                            timeout=command.timeout,
                            output_bytes=command.output_bytes,
                            pass_fds=(filter_fd, sync, status, options_fd),
                        )
                    finally:
                        # Wait until all processes of the command have ended.
                        await shielded(synced())
            # bubblewrap reports each event as a JSON object.
            reports = map(json.loads, (await reported()).splitlines())
            return next((one["exit-code"] for one in reports if "exit-code" in one), None), done

    def _arguments(self, options_fd: int, command: Command) -> tuple[str, ...]:
        programs, spaces = self.programs, f"/proc/{self.holder}/ns"
        folders, as_root = self.group or (), self.user is not None
        user = () if as_root else (f"--user={spaces}/user", "--preserve-credentials")
        become = (programs["setpriv"], f"--reuid={self.user}", f"--regid={self.user}")
        bound, limits = tuple[str, ...](), tuple[str, ...]()
        if self.group is None:  # no control group counts them
            processors = sorted(os.sched_getaffinity(0))
            chosen = random.sample(processors, min(len(processors), math.ceil(self.spec.cpus)))
            bound = (programs["taskset"], "--cpu-list", ",".join(map(str, chosen)))
            limits = (
                f"--nproc={self.spec.processes}",
                f"--as={self.spec.memory_mb * 1024**2}",
                f"--fsize={self.spec.disk_mb * 1024**2}",
            )
        return (
            *("/bin/sh", "-c", _JOIN, "sh", str(len(folders)), *map(str, folders)),
            *(programs["nsenter"], *user, f"--mount={spaces}/mnt"),
            *(f"--pid={spaces}/pid_for_children", "--"),
            *((*become, "--clear-groups", "--") if as_root else ()),
            *bound,
            *(programs["bwrap"], "--args", str(options_fd), "--"),
            *(programs["prlimit"], "--core=0", *limits, "--"),
            *("/bin/sh", "-c", START, "sh", command.cwd, *command.arguments),
        )


def bubblewrap_options(
    spec: ComputerSpec, environ: Mapping[str, str], *, filter_fd: int, sync_fd: int, status_fd: int
) -> Sequence[str]:
    """The options that set up a command's view of the system, see bwrap(1)."""
    is_open = spec.network == "open"
    shown = {f"etc/{name}": f"/etc/{name}" for name in _OWN_SETTINGS}
    readable = {f"readable/{number}": str(path) for number, path in enumerate(spec.readable)}
    return [
        *("--unshare-all", "--unshare-user", "--disable-userns"),
        *(["--share-net"] if is_open else []),
        *("--uid", _AGENT, "--gid", _AGENT, "--hostname", "computer", "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--clearenv", "--seccomp", str(filter_fd)),
        *("--sync-fd", str(sync_fd), "--json-status-fd", str(status_fd)),
        *("--dir", "/etc", "--dir", "/home"),
        *_read_only(shown),
        *system_view(*(["resolv.conf"] if is_open else [])),
        *("--proc", "/proc", "--dev", "/dev", "--bind", f"{_STAGE}/shm", "/dev/shm"),  # noqa: S108
        *("--bind", f"{_STAGE}/tmp", "/tmp", "--bind", f"{_STAGE}/home", HOME),  # noqa: S108
        *("--bind", f"{_STAGE}/workspace", WORKDIR),
        *_read_only(readable),
        # Otherwise both would be writable file systems in memory, without a size limit.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *(word for name, value in environ.items() for word in ("--setenv", name, value)),
        *("--chdir", "/"),
    ]


def _read_only(places: Mapping[str, str]) -> Iterator[str]:
    for staged, path in places.items():
        yield from ("--ro-bind", f"{_STAGE}/{staged}", path)


@asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[int, Callable[[], Awaitable[bytes]]]]:
    source, sink = os.pipe()
    with ExitStack() as ours:
        ours.callback(os.close, sink)
        async with pipe_reader(source) as reader:

            async def drained() -> bytes:
                ours.close()
                return await reader.read()

            yield sink, drained

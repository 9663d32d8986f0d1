"""Control groups: the kernel's limits on all processes of a computer together, versions 1 and 2."""

import asyncio
import contextlib
import errno
import os
import secrets
import shutil
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.aio import shielded
from skillopt_ci.computer import computer
from skillopt_ci.computer.computer import ComputerFailure, ComputerSpec, ComputerUnavailable
from skillopt_ci.computer.process import started

CONTROLLERS = frozenset({"cpu", "memory", "pids"})
_PREFIX = "skillopt-ci_"
_PERIOD = 100_000
#: Processes that a command is started with.
_MACHINERY = 4


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A folder of the control group file system in which we may make groups, and what it limits."""

    version: int
    folder: Path
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The limits of one computer, in force for every process that joins."""

    folders: tuple[Path, ...]

    def count(self, limit: str) -> int:
        """Return how often "memory" or "processes" was asked for beyond the limit."""
        files, key = {
            "memory": (("memory.events", "memory.oom_control"), "oom_kill"),
            "processes": (("pids.events",), "max"),
        }[limit]
        paths = [folder / name for folder in self.folders for name in files]
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.split()[0] == key)


def usable_hierarchies(proc: Path = Path("/proc/self")) -> tuple[Hierarchy, ...] | None:
    """Return where groups with all controllers can be made, None if that is not allowed here."""
    found = list(_version_2(proc)) or list(_version_1(proc))
    if frozenset[str]().union(*(one.controllers for one in found)) != CONTROLLERS:
        return None
    try:
        for one in found:
            trial = one.folder / _name()
            trial.mkdir()
            trial.rmdir()
    except OSError:
        return None
    return tuple(found)


@contextmanager
def control_group(hierarchies: tuple[Hierarchy, ...], spec: ComputerSpec) -> Iterator[ControlGroup]:
    """Make a group with the limits of ``spec``; it must be empty at the end.

    Files are in memory, so their limit and that of memory are one sum to the kernel. Raises
    ComputerUnavailable if a limit cannot be set.
    """
    name = _name()
    group = ControlGroup(tuple(one.folder / name for one in hierarchies))
    try:
        try:
            for one in hierarchies:
                folder = one.folder / name
                folder.mkdir()
                for file, value, needed in _limits(one, spec):
                    if needed or (folder / file).exists():
                        (folder / file).write_text(value)
        except OSError as error:
            raise ComputerUnavailable(
                f"{error.filename}: `rollout.computer`: a limit cannot be set: {error.strerror}."
            ) from error
        yield group
    finally:
        for folder in group.folders:
            with contextlib.suppress(OSError):  # the next sweep gets what is still busy
                folder.rmdir()


def sweep(hierarchies: tuple[Hierarchy, ...]) -> None:
    """Remove the empty groups of processes that have ended without doing so."""
    for one in hierarchies:
        for folder in one.folder.glob(f"{_PREFIX}*"):
            whose = computer.parse(folder.name.removeprefix(_PREFIX).rpartition("_")[0])
            if whose is not None and computer.is_gone(whose):
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _name() -> str:
    return f"{_PREFIX}{computer.this_process()}_{secrets.token_hex(6)}"


def _limits(hierarchy: Hierarchy, spec: ComputerSpec) -> Iterator[tuple[str, str, bool]]:
    """Yield file, value and whether the limit is void without it."""
    memory = str((spec.memory_mb + spec.disk_mb) * 1024**2)
    quota = int(spec.cpus * _PERIOD)
    first = hierarchy.version == 1
    if "memory" in hierarchy.controllers:
        yield ("memory.limit_in_bytes" if first else "memory.max", memory, True)
        yield (
            ("memory.memsw.limit_in_bytes", memory, False)
            if first
            else (
                "memory.swap.max",
                "0",
                False,
            )
        )
    if "cpu" in hierarchy.controllers and first:
        yield "cpu.cfs_period_us", str(_PERIOD), True
        yield "cpu.cfs_quota_us", str(quota), True
    elif "cpu" in hierarchy.controllers:
        yield "cpu.max", f"{quota} {_PERIOD}", True
    if "pids" in hierarchy.controllers:
        yield "pids.max", str(spec.processes + _MACHINERY), True


def _mounts(proc: Path, kind: str) -> Iterator[tuple[Path, Path, frozenset[str]]]:
    """Yield root, mount point and options of the file systems of a kind, see proc(5)."""
    for line in (proc / "mountinfo").read_text().splitlines():
        mount, _, system = line.partition(" - ")
        if system.split()[0] == kind:
            fields = mount.split()
            yield Path(fields[3]), Path(fields[4]), frozenset(system.split()[2].split(","))


def _own_groups(proc: Path) -> dict[frozenset[str], Path]:
    """Return our own group in each hierarchy, by its controllers: none for version 2."""
    lines = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
    return {frozenset(filter(None, names.split(","))): Path(path) for _, names, path in lines}


def _inside(root: Path, point: Path, group: Path) -> Path:
    """Return the folder of a group, as far as the mount shows it."""
    folder = point / group.relative_to(root) if group.is_relative_to(root) else point
    return folder if folder.is_dir() else point


def _version_1(proc: Path) -> Iterator[Hierarchy]:
    own = _own_groups(proc)
    for root, point, options in _mounts(proc, "cgroup"):
        for controllers, group in own.items():
            if controllers & CONTROLLERS and controllers <= options:
                yield Hierarchy(1, _inside(root, point, group), controllers & CONTROLLERS)


def _version_2(proc: Path) -> Iterator[Hierarchy]:
    """Yield the nearest group at or above our own that passes all controllers on."""
    group = _own_groups(proc).get(frozenset())
    for root, point, _ in _mounts(proc, "cgroup2"):
        folder = _inside(root, point, group or root)
        for candidate in (folder, *folder.parents):
            passed_on = candidate / "cgroup.subtree_control"
            if not passed_on.exists():
                break
            if set(passed_on.read_text().split()) >= CONTROLLERS:
                yield Hierarchy(2, candidate, CONTROLLERS)
                return


# What a sandboxed program may not ask of the kernel, as a program for the kernel's filter.

#: Numbers of refused calls: x86-64's table, and the generic one that AArch64 uses.
REFUSED = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
}
#: Refused as well where no control group counts: ways around limits that hold per process.
REFUSED_UNCOUNTED = {
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "sched_setaffinity": (203, 122),
}
_CLONE, _CLONE3, _SOCKET, _SOCKETPAIR, _IOCTL = (
    (56, 220),
    (435, 435),
    (41, 198),
    (53, 199),
    (16, 29),
)
_CLONE_NEWUSER = 0x1000_0000
#: Would type into the terminal of the host: TIOCSTI, TIOCLINUX.
_TYPING = (0x5412, 0x541C)
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF_0000, 0x0005_0000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    audit: int


_MACHINES = {"x86_64": _Machine(0, 0xC000_003E), "aarch64": _Machine(1, 0xC000_00B7)}


def seccomp_filter(machine: str, *, counted: bool) -> bytes:
    """Return the filter for a machine as `uname -m` names it.

    ``counted``: a control group limits the computer as a whole. Raises ComputerUnavailable for a
    machine whose numbers are not known.
    """
    if machine not in _MACHINES:
        raise ComputerUnavailable(
            f"`rollout.computer.type: sandbox` knows x86_64 and aarch64, this is {machine}.",
            hint="Use `type: docker`.",
        )
    known = _MACHINES[machine]
    refused = REFUSED if counted else REFUSED | REFUSED_UNCOUNTED
    steps = [
        *_unless_machine(known.audit),
        # Numbers of the x32 interface, which would go past the comparisons below.
        *_when(_AT_LEAST, 0x4000_0000, _refusal(errno.ENOSYS)),
        # Its flags are behind a pointer. A C library takes the older call when there is no such.
        *_when(_EQUAL, _CLONE3[known.column], _refusal(errno.ENOSYS)),
        *(
            step
            for numbers in refused.values()
            for step in _when(_EQUAL, numbers[known.column], _refusal(errno.EPERM))
        ),
        *_argument(_CLONE[known.column], 0, _when(_ANY_BIT, _CLONE_NEWUSER, _refusal(errno.EPERM))),
        *_argument(
            _IOCTL[known.column],
            1,
            [step for code in _TYPING for step in _when(_EQUAL, code, _refusal(errno.EPERM))],
        ),
        *_families(_SOCKET[known.column]),
        *_families(_SOCKETPAIR[known.column]),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, operand: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, operand)


def _refusal(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _when(comparison: int, operand: int, action: bytes) -> list[bytes]:
    return [_step(comparison, operand, 0, 1), action]


def _unless_machine(audit: int) -> list[bytes]:
    """Refuse what 32-bit programs ask; then look at the call's number."""
    return [
        _step(_LOAD, _MACHINE),
        _step(_EQUAL, audit, 1, 0),
        _refusal(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
    ]


def _argument(number: int, index: int, steps: Iterable[bytes]) -> list[bytes]:
    """Look at an argument (its lower half) of one call; afterwards at the number again."""
    body = [_step(_LOAD, _ARGUMENTS + 8 * index), *steps, _step(_LOAD, _NUMBER)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _families(number: int) -> list[bytes]:
    """Allow sockets of the families that namespaces confine."""
    allowed = [_step(_EQUAL, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)]
    return _argument(number, 0, [*allowed, _refusal(errno.EAFNOSUPPORT)])


# Whom the sandbox's processes belong to on the host.

#: Numbers that no distribution gives to anybody: above systemd's containers, below 2³¹.
_FIRST, _COUNT = 1_900_000_000, 200_000_000


@dataclass(frozen=True, slots=True)
class Rights:
    """The user as whom everything inside runs.

    Root never goes inside: it becomes a user that owns nothing, a different one each time.
    """

    #: The user to become, None to remain who we are.
    become: int | None

    @property
    def is_root(self) -> bool:
        """Whether we are root on the host."""
        return self.become is not None


def own_rights() -> Rights:
    """Return the rights for a new sandbox of this process."""
    return Rights(_FIRST + secrets.randbelow(_COUNT) if os.geteuid() == 0 else None)


# The programs that a sandbox is made with.

#: Program and the Debian package that has it.
_NEEDED = {
    "bwrap": "bubblewrap",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "prlimit": "util-linux",
    "setpriv": "util-linux",
    "taskset": "util-linux",
    "mount": "mount",
}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where each program is."""

    bwrap: str
    unshare: str
    nsenter: str
    prlimit: str
    setpriv: str
    taskset: str
    mount: str


def find_programs(search_path: str) -> Programs:
    """Look for the programs. Raises ComputerUnavailable with what to install."""
    # Administrators' programs are often left out of the path of ordinary users.
    administrative = (folder.replace("bin", "sbin") for folder in search_path.split(os.pathsep))
    path = os.pathsep.join((search_path, *administrative))
    found = {name: shutil.which(name, path=path) for name in _NEEDED}
    missing = sorted({_NEEDED[name] for name, file in found.items() if file is None})
    if missing:
        names = ", ".join(name for name, file in found.items() if file is None)
        raise ComputerUnavailable(
            f"`rollout.computer.type: sandbox` needs the program {names}, which is not installed.",
            hint=f"Install it: apt-get install {' '.join(missing)}"
            " (Linux only). Or use `type: docker`.",
        )
    return Programs(**{name: file for name, file in found.items() if file is not None})


# The process that a computer lives and dies with.

#: Where the file system is, in the holder's view of the files: a folder that every Linux has, and
#: that nobody keeps programs in.
STAGE = "/sys"
_READY = b"ready\n"
_FILES_PER_MB = 128
_LEAST_FILES = 16_384
_PATIENCE = 60.0

#: Arguments: megabytes, number of files, owner, readable paths. While the shell waits for `cat` it
#: takes note of the end of other processes as well, whose parents were killed.
_SCRIPT = """\
set -eu
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


@dataclass(frozen=True, slots=True)
class NamespaceHolder:
    """A holder at work; ``pid`` is its parent's, whose namespaces for children are the holder's."""

    pid: int

    def entering(self, programs: Programs, rights: Rights) -> tuple[str, ...]:
        """Return the words that make a command start in the holder's namespaces, as the agent."""
        spaces = f"/proc/{self.pid}/ns"
        user = () if rights.is_root else (f"--user={spaces}/user", "--preserve-credentials")
        become = (programs.setpriv, f"--reuid={rights.become}", f"--regid={rights.become}")
        return (
            programs.nsenter,
            *user,
            f"--mount={spaces}/mnt",
            f"--pid={spaces}/pid_for_children",
            "--",
            *((*become, "--clear-groups", "--") if rights.is_root else ()),
        )


@asynccontextmanager
async def namespace_holder(
    programs: Programs, rights: Rights, *, disk_mb: int, readable: Sequence[Path]
) -> AsyncIterator[NamespaceHolder]:
    """Start a holder; at the end it is gone with everything inside.

    Raises ComputerFailure if it does not start, with what the system says.
    """
    user = () if rights.is_root else ("--user", "--map-root-user")
    files = max(_LEAST_FILES, disk_mb * _FILES_PER_MB)
    starting = asyncio.create_subprocess_exec(
        *(
            programs.unshare,
            *user,
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ),
        *("/bin/sh", "-c", _SCRIPT, "sh", str(disk_mb), str(files), str(rights.become or 0)),
        *map(str, readable),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        cwd="/",
        start_new_session=True,
    )
    process = await started(starting)
    try:
        await _await_readiness(process)
        yield NamespaceHolder(process.pid)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await shielded(process.wait())


async def _await_readiness(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None  # noqa: S101  (both were asked for)
    assert process.stderr is not None  # noqa: S101
    try:
        async with asyncio.timeout(_PATIENCE):
            if await process.stdout.readline() == _READY:
                return
            errors = await process.stderr.read()
    except TimeoutError:
        process.kill()
        raise ComputerFailure(f"The sandbox did not start within {_PATIENCE:g} s.") from None
    reason = errors.decode("utf-8", errors="replace").strip()
    raise ComputerFailure(f"The sandbox did not start: {reason or 'no reason was given'}")

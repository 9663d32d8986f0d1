"""The kernel's limits for a sandbox: control groups (versions 1 and 2) and a seccomp filter."""

import errno
import secrets
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.errors import ComputerUnavailable
from skillopt_ci.liveness import is_gone, this_process

CONTROLLERS = frozenset({"cpu", "memory", "pids"})
_PREFIX = "skillopt-ci_"
_PERIOD = 100_000
#: Extra processes needed to start a command.
_MACHINERY = 4
#: The files and keys in which the kernel counts requests beyond a limit.
_COUNTS = {
    "memory": (("memory.events", "memory.oom_control"), "oom_kill"),
    "processes": (("pids.events",), "max"),
}


def _numbers(table: str) -> dict[str, tuple[int, int]]:
    """System calls by name, with their numbers on x86-64 and the generic ones of AArch64."""
    rows = (row.split() for row in table.split(","))
    return {name: (int(first), int(second)) for name, first, second in rows}


REFUSED = _numbers(
    "mount 165 40, umount2 166 39, pivot_root 155 41, swapon 167 224, swapoff 168 225, "
    "reboot 169 142, syslog 103 116, acct 163 89, quotactl 179 60, init_module 175 105, "
    "delete_module 176 106, finit_module 313 273, kexec_load 246 104, "
    "kexec_file_load 320 294, add_key 248 217, request_key 249 218, keyctl 250 219, "
    "unshare 272 97, setns 308 268, perf_event_open 298 241, open_by_handle_at 304 265, "
    "bpf 321 280, userfaultfd 323 282, io_uring_setup 425 425, io_uring_enter 426 426, "
    "io_uring_register 427 427, open_tree 428 428, move_mount 429 429, fsopen 430 430, "
    "fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442"
)
#: Also refused without control groups: these calls circumvent limits that hold per process.
REFUSED_UNCOUNTED = _numbers("memfd_create 319 279, shmget 29 194, sched_setaffinity 203 122")
#: Calls whose permission depends on an argument.
JUDGED = _numbers("clone 56 220, clone3 435 435, socket 41 198, socketpair 53 199, ioctl 16 29")
_CLONE_NEWUSER = 0x1000_0000
#: TIOCSTI and TIOCLINUX, which could type into the terminal of the host.
_TYPING = (0x5412, 0x541C)
#: Socket families that namespaces confine.
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

#: Instructions of the kernel's filters, see linux/bpf_common.h and linux/seccomp.h.
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF_0000, 0x0005_0000
#: Offsets of a call's number, its architecture, and its arguments.
_NUMBER, _INTERFACE, _ARGUMENTS = 0, 4, 16
_X32 = 0x4000_0000
#: For each machine: the column in the tables above, and its native architecture code.
_MACHINES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A control group folder in which we may create groups, and the resources that it limits."""

    version: int
    folder: Path
    controllers: frozenset[str]


#: The folders of one computer's control group; its limits hold for every process that joins.
ControlGroup = tuple[Path, ...]


def times_exceeded(group: ControlGroup, limit: str) -> int:
    """How often "memory" or "processes" exceeded the limit."""
    files, key = _COUNTS[limit]
    paths = [folder / name for folder in group for name in files]
    lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.split()[0] == key)


def usable_hierarchies(proc: Path = Path("/proc/self")) -> tuple[Hierarchy, ...] | None:
    """Folders in which we can create groups with all controllers; None if not allowed here."""
    lines = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
    # Our own group in each hierarchy, by its controllers; version 2 names none.
    own = {frozenset(filter(None, names.split(","))): Path(path) for _, names, path in lines}
    found = list(_version_2(proc, own)) or list(_version_1(proc, own))
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


def _version_1(proc: Path, own: dict[frozenset[str], Path]) -> Iterator[Hierarchy]:
    for root, point, options in _mounts(proc, "cgroup"):
        for controllers, group in own.items():
            if controllers & CONTROLLERS and controllers <= options:
                yield Hierarchy(1, _inside(root, point, group), controllers & CONTROLLERS)


def _version_2(proc: Path, own: dict[frozenset[str], Path]) -> Iterator[Hierarchy]:
    """The nearest group, from our own upwards, that delegates all controllers."""
    for root, point, _ in _mounts(proc, "cgroup2"):
        folder = _inside(root, point, own.get(frozenset()) or root)
        for candidate in (folder, *folder.parents):
            if not (passed_on := candidate / "cgroup.subtree_control").exists():
                break
            if set(passed_on.read_text().split()) >= CONTROLLERS:
                yield Hierarchy(2, candidate, CONTROLLERS)
                return


def _mounts(proc: Path, kind: str) -> Iterator[tuple[Path, Path, frozenset[str]]]:
    """Yield root, mount point and options of each file system of a kind, see proc(5)."""
    for line in (proc / "mountinfo").read_text().splitlines():
        mount, _, system = line.partition(" - ")
        if system.split()[0] == kind:
            fields = mount.split()
            yield Path(fields[3]), Path(fields[4]), frozenset(system.split()[2].split(","))


def _inside(root: Path, point: Path, group: Path) -> Path:
    folder = point / group.relative_to(root) if group.is_relative_to(root) else point
    return folder if folder.is_dir() else point


@contextmanager
def control_group(hierarchies: tuple[Hierarchy, ...], spec: ComputerSpec) -> Iterator[ControlGroup]:
    """Make a group limited by ``spec``; remove it at the end. Raises ComputerUnavailable."""
    name = _name()
    group = tuple(one.folder / name for one in hierarchies)
    try:
        try:
            for one, folder in zip(hierarchies, group, strict=True):
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
        for folder in group:
            with suppress(OSError):  # the next sweep removes a group that is still busy
                folder.rmdir()


def _limits(hierarchy: Hierarchy, spec: ComputerSpec) -> list[tuple[str, str, bool]]:
    """File, value and whether the limit is ineffective without it, in the order of writing."""
    # Files are in memory, so the kernel limits the sum of both.
    memory = str((spec.memory_mb + spec.disk_mb) * 1024**2)
    quota = int(spec.cpus * _PERIOD)
    version_1 = (
        ("memory.limit_in_bytes", memory, True),
        ("memory.memsw.limit_in_bytes", memory, False),
        ("cpu.cfs_period_us", str(_PERIOD), True),
        ("cpu.cfs_quota_us", str(quota), True),
    )
    version_2 = (
        ("memory.max", memory, True),
        ("memory.swap.max", "0", False),
        ("cpu.max", f"{quota} {_PERIOD}", True),
    )
    rows = (
        *(version_1 if hierarchy.version == 1 else version_2),
        ("pids.max", str(spec.processes + _MACHINERY), True),
    )
    return [row for row in rows if row[0].partition(".")[0] in hierarchy.controllers]


def sweep(hierarchies: tuple[Hierarchy, ...]) -> None:
    """Remove empty groups of processes that ended without removing them."""
    for one in hierarchies:
        for folder in one.folder.glob(f"{_PREFIX}*"):
            if is_gone(folder.name.removeprefix(_PREFIX).rpartition("_")[0]):
                with suppress(OSError):
                    folder.rmdir()


def _name() -> str:
    return f"{_PREFIX}{this_process()}_{secrets.token_hex(6)}"


def seccomp_filter(machine: str, *, counted: bool) -> bytes:
    """The filter for a machine (named by `uname -m`) in the format of bwrap's `--seccomp`.

    ``counted``: a control group limits the computer as a whole. Raises ComputerUnavailable for an
    unknown machine. Made by hand, since bindings need libseccomp, which bubblewrap does without.
    """
    if machine not in _MACHINES:
        raise ComputerUnavailable(
            f"`rollout.computer.type: sandbox` knows x86_64 and aarch64, this is {machine}.",
            hint="Use `type: docker`.",
        )
    column, interface = _MACHINES[machine]
    clone, clone3, plain_socket, pair, ioctl = (numbers[column] for numbers in JUDGED.values())
    refused = REFUSED if counted else REFUSED | REFUSED_UNCOUNTED
    families = [
        *(_step(_EQUAL, family, len(_FAMILIES) - at) for at, family in enumerate(_FAMILIES)),
        _refusal(errno.EAFNOSUPPORT),
    ]
    return b"".join(
        [
            _step(_LOAD, _INTERFACE),
            _step(_EQUAL, interface, 1),
            _refusal(errno.ENOSYS),  # 32-bit programs
            _step(_LOAD, _NUMBER),
            # Numbers of x32 calls would pass the comparisons below.
            *_refused_if(_AT_LEAST, _X32, errno.ENOSYS),
            # Its flags are behind a pointer; the C library then falls back to the older call.
            *_refused_if(_EQUAL, clone3, errno.ENOSYS),
            *(
                step
                for numbers in refused.values()
                for step in _refused_if(_EQUAL, numbers[column])
            ),
            *_argument(clone, 0, _refused_if(_ANY_BIT, _CLONE_NEWUSER)),
            *_argument(ioctl, 1, [step for code in _TYPING for step in _refused_if(_EQUAL, code)]),
            *_argument(plain_socket, 0, families),
            *_argument(pair, 0, families),
            _step(_RETURN, _ALLOW),
        ]
    )


def _step(code: int, operand: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, operand)


def _refusal(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _refused_if(comparison: int, operand: int, error: int = errno.EPERM) -> list[bytes]:
    return [_step(comparison, operand, 0, 1), _refusal(error)]


def _argument(number: int, index: int, steps: Iterable[bytes]) -> list[bytes]:
    """Check the lower half of an argument of one call, then reload the call's number."""
    body = [_step(_LOAD, _ARGUMENTS + 8 * index), *steps, _step(_LOAD, _NUMBER)]
    return [_step(_EQUAL, number, 0, len(body)), *body]

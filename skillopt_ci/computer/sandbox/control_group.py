"""Control groups: the kernel's limits on all processes of a computer together, versions 1 and 2."""

import contextlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.computer import owner
from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.errors import ComputerUnavailable

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
            whose = owner.parse(folder.name.removeprefix(_PREFIX).rpartition("_")[0])
            if whose is not None and owner.is_gone(whose):
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _name() -> str:
    return f"{_PREFIX}{owner.this_process()}_{secrets.token_hex(6)}"


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

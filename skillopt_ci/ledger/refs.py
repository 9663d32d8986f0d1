"""The refs of a run, and how local refs are moved: all together or not at all."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import LostRace, PushRefused, RepositoryError
from skillopt_ci.ledger import store
from skillopt_ci.ledger.git import Git, Result

_HEADS = "refs/heads/"
_BROKEN = re.compile(r"ignoring broken ref (\S+)")
#: `<old> <new> Ada <ada@example.org> 1700000000 +0000<tab>reason`
_REFLOG_LINE = re.compile(rb"^[0-9a-f]{40,64} ([0-9a-f]{40,64}) ", re.MULTILINE)
#: What to do about a ref that is locked or broken.
HOW_REPAIRED = (
    "The next `skillopt-ci step` or `run` repairs the refs of its run. For any other: remove the "
    "lock once no git is at work here; of a broken ref, the last line of its file in .git/logs "
    "tells the commit (second word) that belongs into its file in .git."
)
_MOVED = (
    "but expected",
    "reference already exists",
    "unable to resolve reference",
)


@dataclass(frozen=True, slots=True)
class RunRefs:
    """Full names of the refs that a run reads and writes."""

    base: str
    skills: str
    candidate: str

    @property
    def all(self) -> tuple[str, str, str]:
        """The three names."""
        return self.base, self.skills, self.candidate


def for_run(run: str, base: str) -> RunRefs:
    """Name the refs of ``run``, whose users work on branch ``base``."""
    return RunRefs(
        base=_HEADS + base,
        skills=f"{_HEADS}skillopt/{run}",
        candidate=f"{_HEADS}skillopt-candidate/{run}",
    )


def branch(ref: str) -> str:
    """Return the short name of a branch's ref."""
    return ref.removeprefix(_HEADS)


def tracking(remote: str, ref: str) -> str:
    """Name the ref that remembers where ``ref`` was on ``remote``."""
    return f"refs/remotes/{remote}/{branch(ref)}"


def deleted(ref: str) -> str:
    """Name the folder of refs that keep what ``ref`` held when it was deleted on the remote."""
    return f"refs/skillopt-ci/deleted/{branch(ref)}"


def written(run_refs: RunRefs, remote: str | None) -> tuple[str, ...]:
    """Name the local refs that training writes: the run's branches, and what tracks a remote."""
    own = (run_refs.skills, run_refs.candidate)
    return own if remote is None else (*own, *(tracking(remote, ref) for ref in run_refs.all))


@dataclass(frozen=True, slots=True)
class Move:
    """A ref to be moved; None stands for absence, before or after."""

    ref: str
    old: str | None
    new: str | None

    def instruction(self) -> bytes:
        """Return the line for ``git update-ref --stdin -z``; empty for what stays absent."""
        match self.old, self.new:
            case None, None:
                return b""
            case None, new:
                return f"create {self.ref}\0{new}\0".encode()
            case old, None:
                return f"delete {self.ref}\0{old}\0".encode()
            case old, new if old == new:
                return f"verify {self.ref}\0{old}\0".encode()
            case old, new:
                return f"update {self.ref}\0{new}\0{old}\0".encode()


def read(git: Git, *names: str) -> dict[str, str]:
    """Return the object that each existing ref of ``names`` points at."""
    return {name: oid for name, (oid, _) in _look(git, *names).items()}


def read_to_move(git: Git, run_refs: RunRefs, *others: str) -> dict[str, str]:
    """Read the run's own branches, which are about to be moved, and ``others`` with them.

    Raises RepositoryError if one of the run's branches is checked out.
    """
    found = _look(git, run_refs.skills, run_refs.candidate, *others)
    _refuse_marked(git, run_refs, found)
    return {name: oid for name, (oid, _) in found.items()}


def branches_to_move(git: Git, run_refs: RunRefs) -> tuple[str, ...]:
    """Name all branches, of which the run's own are to be moved.

    Raises RepositoryError if one of those is checked out.
    """
    found = _listed(git, _HEADS)
    _refuse_marked(git, run_refs, found)
    return tuple(found)


def _refuse_marked(git: Git, run_refs: RunRefs, found: Mapping[str, tuple[str, str]]) -> None:
    own = (run_refs.skills, run_refs.candidate)
    if any(mark for name, (_, mark) in found.items() if name in own):
        refuse_checked_out(git, run_refs)


def _look(git: Git, *names: str) -> dict[str, tuple[str, str]]:
    """Return the object of each existing ref, and a mark if it is checked out somewhere."""
    found = _listed(git, *names)
    return {name: found[name] for name in names if name in found}


def _listed(git: Git, *patterns: str) -> dict[str, tuple[str, str]]:
    """The same of all refs that are or begin with one of ``patterns``.

    Raises RepositoryError if one of ``patterns`` is a broken ref, which git takes for none.
    """
    how = "--format=%(refname) %(objectname) %(if)%(worktreepath)%(then)*%(end)"
    result = git.run("for-each-ref", how, *patterns)
    for name in _broken(result, patterns):
        raise RepositoryError(
            f"{name} is broken in this repository: its file names no commit, as after a power loss",
            hint=HOW_REPAIRED,
        )
    lines = (line.split(" ") for line in result.text.splitlines())
    return {name: (oid, mark) for name, oid, mark in lines}


def _broken(listed: Result, names: tuple[str, ...]) -> list[str]:
    return [name for name in _BROKEN.findall(listed.stderr) if name in names]


def repair(
    git: Git,
    common_dir: Path,
    names: tuple[str, ...],
    remote: str | None,
    tell: Callable[[str], None],
) -> None:
    """Put right those of ``names`` whose file is empty or garbage, from the reflog or the remote.

    To be called with the run's lock held. Raises RepositoryError if neither knows.
    """
    for name in _broken(git.run("for-each-ref", *names), names):
        file, commit = common_dir / name, _last_in_reflog(git, common_dir / "logs" / name)
        if commit is None and remote is None:
            raise RepositoryError(
                f"{name} is broken, as after a power loss, and no reflog knows its commit",
                hint=f"Find it with `git fsck --lost-found`, then: rm '{file}'; "
                f"git update-ref {name} COMMIT\nWithout the second command it starts afresh.",
            )
        try:
            _replace(file, commit)
        except OSError as error:
            raise RepositoryError(f"{file} is broken and cannot be replaced: {error}") from error
        healed = f"put back to {commit[:12]} (reflog)" if commit else f"taken from {remote} anew"
        tell(f"{name} was broken, as after a power loss: {healed}.")


def _last_in_reflog(git: Git, log: Path) -> str | None:
    """Return the newest commit that the reflog names and the repository has."""
    try:
        found: list[bytes] = _REFLOG_LINE.findall(log.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    for oid in reversed(found):
        known = store.find(git, oid.decode())
        if known is not None and known.kind == "commit":
            return known.oid
    return None


def _replace(ref: Path, commit: str | None) -> None:
    """Write or remove a loose ref the way git does, which itself will not touch a broken one."""
    lock = ref.with_name(f"{ref.name}.lock")
    with lock.open("x", encoding="ascii") as file:
        file.write(f"{commit}\n")
        file.flush()
        os.fsync(file.fileno())
    if commit is None:
        ref.unlink()
        lock.unlink()
    else:
        lock.replace(ref)


def change_something(moves: tuple[Move, ...]) -> bool:
    """Tell whether one of the moves leads to somewhere else."""
    return any(each.old != each.new for each in moves)


def move(git: Git, moves: tuple[Move, ...], reason: str) -> None:
    """Move refs in one transaction, each only from where it is expected to be.

    Raises LostRace if one of them is elsewhere, PushRefused if a hook of the repository objects,
    RepositoryError for the rest (a lock left behind, a name that blocks another).
    """
    if not change_something(moves):
        return
    instructions = b"".join(each.instruction() for each in moves)
    result = git.attempt(
        "update-ref", "--no-deref", "-m", f"skillopt-ci: {reason}", "--stdin", "-z",
        stdin=instructions,
    )  # fmt: skip
    if result.status == 0:
        return
    words = result.stderr.strip()
    if "aborted by hook" in words:
        raise PushRefused(f"this repository's reference-transaction hook refused: {words}")
    if "reference broken" in words:
        raise RepositoryError(f"a ref of this run is broken: {words}", hint=HOW_REPAIRED)
    if any(sign in words for sign in _MOVED):
        raise LostRace(f"a ref of this run was moved by someone else: {words}")
    left = "': File exists" in words
    raise RepositoryError(
        f"git could not move its refs: {words}", hint=HOW_REPAIRED if left else ""
    )


def worktree_of(git: Git, *names: str) -> str | None:
    """Return the folder of a worktree that has one of the branches checked out, if any."""
    for block in git.text("worktree", "list", "--porcelain").split("\n\n"):
        facts = dict(line.partition(" ")[::2] for line in block.splitlines())
        if facts.get("branch") in names and "prunable" not in facts:
            return facts["worktree"]
    return None


def refuse_checked_out(git: Git, run_refs: RunRefs) -> None:
    """Raise RepositoryError if moving the run's branches would make a checkout look dirty."""
    folder = worktree_of(git, run_refs.skills, run_refs.candidate)
    if folder is not None:
        raise RepositoryError(
            f"{branch(run_refs.skills)} is checked out in {folder}; training would move it there",
            hint=f"Check out something else first: git -C {folder} switch {branch(run_refs.base)}",
        )

"""The refs of a run, and how local refs are moved: all together or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass

from skillopt_ci.errors import LostRace, PushRefused, RepositoryError
from skillopt_ci.ledger.git import Git

_HEADS = "refs/heads/"
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
    """The same of all refs that are or begin with one of ``patterns``."""
    how = "--format=%(refname) %(objectname) %(if)%(worktreepath)%(then)*%(end)"
    lines = (line.split(" ") for line in git.text("for-each-ref", how, *patterns).splitlines())
    return {name: (oid, mark) for name, oid, mark in lines}


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
    if any(sign in words for sign in _MOVED):
        raise LostRace(f"a ref of this run was moved by someone else: {words}")
    raise RepositoryError(f"git could not move its refs: {words}")


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

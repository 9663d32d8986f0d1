"""The refs of a run, and how local refs are moved: all together or not at all."""

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import NamedTuple

from skillopt_ci.config import config
from skillopt_ci.errors import (
    InfrastructureError,
    LostRace,
    PushRefused,
    RepositoryError,
    SkilloptError,
)
from skillopt_ci.git import objects
from skillopt_ci.git.process import Git, Result

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
        known = objects.find(git, oid.decode())
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


# Why a remote would not do what it was asked, told apart by git's own words.

_RACE = re.compile(
    r"\((stale info|fetch first|non-fast-forward|needs force|already exists"
    r"|incorrect old value provided|remote ref updated since checkout)\)"
    r"|is at [0-9a-f]+ but expected|reference already exists|remote ref does not exist"
    # of another push that is at work on the same ref, or was a moment ago
    r"|unable to resolve reference|reference is missing but expected|reference does not exist"
)
_LOCKED = re.compile(r"(/[^'\n]+(?:\.lock|/packed-refs\.new))'?: File exists")


class _Cause(NamedTuple):
    sign: re.Pattern[str]
    meaning: str
    hint: str


def _cause(sign: str, meaning: str, hint: str) -> _Cause:
    return _Cause(re.compile(sign, re.IGNORECASE), meaning, hint)


#: Refusals of single refs, which the server decided on.
_DECISIONS = (
    _cause(
        r"GH006|GH013|protected branch|rule violations|deletion prohibited",
        "a branch protection or ruleset forbids it",
        "Let skillopt-ci push to `skillopt/**` and `skillopt-candidate/**` (create, update and "
        "delete); nothing else is ever pushed.",
    ),
    _cause(
        r"missing necessary objects",
        "an object or a ref of it is broken, as after a power loss",
        "Where that repository is kept, `git fsck` tells which.",
    ),
    _cause(r"hook declined", "a hook on the server declined it", "Its own words are above."),
)

#: Failures of the whole conversation.
_FAILURES = (
    _cause(
        r"ref updates aborted by hook",
        "a reference-transaction hook, here or on the server, refused it",
        "Its own words are above.",
    ),
    _cause(
        r"does not support --atomic|dumb http",
        "it cannot take several refs as one transaction, so a step could get lost half-way",
        "Use a git server with the smart protocol, or set `git.remote: null` to stay local.",
    ),
    _cause(
        r"error: 403|write access to repository not granted|marked as read only|denied to "
        r"|insufficient permission|read-only",
        "it may be read but not written",
        "Use credentials with write access (in GitHub Actions: `permissions: contents: write`).",
    ),
    _cause(
        r"authentication failed|could not read (username|password)|permission denied"
        r"|invalid credentials|error: 401|terminal prompts disabled|host key verification failed",
        "it does not accept our credentials",
        "Set up git's credentials for it; `git ls-remote` must work without asking.",
    ),
    _cause(
        r"could not resolve|failed to connect|couldn't connect|connection (refused|timed out|reset"
        r"|closed)|operation timed out|unreachable|no route to host|unexpected disconnect"
        r"|early eof|hung up unexpectedly|error: 5\d\d|\bssl\b|\btls\b|certificate",
        "the network or the server failed",
        "Nothing is lost: run again once it can be reached.",
    ),
    _cause(
        r"not found|does not appear to be a git repository|error: 404|no such file",
        "there is no repository, or none that our credentials may see",
        "Check `git remote -v`.",
    ),
)


def locked_by(result: Result) -> str:
    """Return the lock file that git met, nothing if it was something else that stopped it."""
    met = _LOCKED.search(result.stderr)
    return met[1] if met else ""


def of_push(remote: str, result: Result) -> SkilloptError:
    """Word the failure of ``git push --porcelain``: a LostRace, or a PushRefused."""
    rejected = [line for line in result.text.splitlines() if line.startswith("!")]
    words = "\n".join([*rejected, result.stderr.strip()]).strip()
    if lock := locked_by(result):
        return PushRefused(
            f"{remote!r} did not take the push: a lock of git's was left behind there\n{words}",
            hint="Nothing is lost, but the run cannot go on while it is there. Where that "
            f"repository is kept, see that no git is at work in it, then remove\n{lock}\n"
            "At a code host, its support can.",
        )
    if _RACE.search(words):
        return LostRace(
            f"another run moved this run's branches on {remote!r} first",
            hint=f"Nothing was overwritten. git said:\n{words}",
        )
    if not rejected and "failed to push some refs" in words and "fatal:" not in words:
        meaning, hint = "this repository's own pre-push hook refused it", "Its words are above."
    else:
        meaning, hint = _explain(words, _DECISIONS if rejected else _FAILURES)
    return PushRefused(f"{remote!r} did not take the push: {meaning}\n{words}", hint=hint)


def of_fetch(remote: str, result: Result) -> SkilloptError:
    """Word the failure of a fetch or of asking for the remote's refs."""
    words = result.stderr.strip()
    if locked_by(result) or "bad object refs/" in words:
        return RepositoryError(
            f"refs of this repository are locked or broken, so nothing can be fetched\n{words}",
            hint=HOW_REPAIRED,
        )
    meaning, hint = _explain(words, _FAILURES)
    return InfrastructureError(f"cannot read from {remote!r}: {meaning}\n{words}", hint=hint)


def _explain(words: str, causes: tuple[_Cause, ...]) -> tuple[str, str]:
    for cause in causes:
        if cause.sign.search(words):
            return cause.meaning, cause.hint
    return "git gives this reason", ""


# Talk to the remote: its refs, fetches by explicit refspec, pushes that expect a state.

#: Leave alone what else the user's configuration would have a fetch do.
_FETCH = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-prune",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
)
_PUSH = ("push", "--porcelain", "--atomic", "--no-follow-tags", "--no-recurse-submodules")
#: Seconds between tries of a push that met a lock: a living git gives it up long before the last.
_LOCK_PAUSES = (0.5, 1, 2, 4, 8)


def heads(git: Git, remote: str, *patterns: str) -> dict[str, str]:
    """Ask the remote for the refs that match ``patterns``: full name to object.

    Raises InfrastructureError if it cannot be asked, or one of them is broken there.
    """
    result = git.attempt("ls-remote", "--refs", remote, *patterns)
    if result.status != 0:
        raise of_fetch(remote, result)
    pairs = (line.split("\t") for line in result.text.splitlines())
    found = {name: oid for oid, name in pairs}
    for name in (name for name, oid in found.items() if not oid.strip("0")):
        known = read(git, tracked := tracking(remote, name)).get(tracked, "COMMIT")
        raise InfrastructureError(
            f"{name} is broken on {remote!r}, as after a power loss: it names no commit there",
            hint="Where that repository is kept, remove the file and set the ref to where it was: "
            f"git update-ref {name} {known}",
        )
    return found


def default_branch(git: Git, remote: str) -> str | None:
    """Ask the remote which branch its HEAD is; None if it is empty or detached.

    Raises InfrastructureError if it cannot be asked.
    """
    result = git.attempt("ls-remote", "--symref", remote, "HEAD")
    if result.status != 0:
        raise of_fetch(remote, result)
    _, is_branch, rest = result.text.partition("ref: refs/heads/")
    return rest.split("\t")[0] if is_branch else None


def fetch(git: Git, remote: str, names: Sequence[str], *options: str) -> None:
    """Fetch branches (full names) into their tracking refs.

    Raises InfrastructureError if the remote cannot be read.
    """
    refspecs = (f"+{name}:{tracking(remote, name)}" for name in names)
    result = git.attempt(*_FETCH, *options, remote, *refspecs)
    if result.status != 0:
        raise of_fetch(remote, result)


def fetch_object(git: Git, remote: str, ref: str) -> None:
    """Fetch what a ref of the remote points at, without a ref of our own for it.

    Raises InfrastructureError if the remote cannot be read.
    """
    result = git.attempt(*_FETCH, remote, ref)
    if result.status != 0:
        raise of_fetch(remote, result)


def deepen_clone(git: Git, remote: str, names: Sequence[str], generations: int) -> None:
    """Fetch that many more generations of a shallow clone's branches; 0 means all there are.

    Raises InfrastructureError if the remote cannot be read.
    """
    option = f"--deepen={generations}" if generations else "--unshallow"
    fetch(git, remote, tuple(heads(git, remote, *names)), option)


def push(git: Git, remote: str, moves: Sequence[Move], *options: str) -> None:
    """Move refs of the remote, all or none, each only from where it is expected to be.

    A lock on one of them is waited for. Raises LostRace if one is elsewhere, PushRefused (which
    says why) otherwise.
    """
    leases = (f"--force-with-lease={move.ref}:{move.old or ''}" for move in moves)
    refspecs = (f"{move.new or ''}:{move.ref}" for move in moves)
    command = (*_PUSH, *options, *leases, remote, *refspecs)
    result = git.attempt(*command)
    for seconds in _LOCK_PAUSES:
        if result.status == 0 or not locked_by(result):
            break
        sleep(seconds)
        result = git.attempt(*command)
    if result.status != 0:
        raise of_push(remote, result)


# Find the repository that a folder belongs to, and what in it the ledger works with.


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a worktree; ``common_dir`` is shared by all its worktrees."""

    root: Path
    common_dir: Path
    git: Git


def find(start: Path, settings: config.Git) -> Repository:
    """Find the repository around ``start``.

    Raises RepositoryError if there is none, it has no worktree, or no commit yet.
    """
    folder = start if start.is_dir() else start.parent
    if not folder.is_dir():
        raise RepositoryError(f"{start}: no such folder")
    top = Git(folder).attempt("rev-parse", "--show-toplevel")
    if top.status != 0:
        raise _not_usable(folder, top.stderr)
    git = Git(Path(top.text), _identity(settings))
    common = git.attempt("rev-parse", "--git-common-dir", "HEAD^{commit}")
    if common.status != 0:
        raise RepositoryError(
            f"{top.text}: the current branch has no commit yet",
            hint="Commit the skill and its tasks first.",
        )
    folder = git.folder / common.text.rpartition("\n")[0]
    return Repository(git.folder, folder.resolve(), git)


def _not_usable(folder: Path, stderr: str) -> RepositoryError:
    if "dubious ownership" in stderr:
        return RepositoryError(
            f"{folder}: git does not trust this folder, because another user owns it",
            hint=f"git config --global --add safe.directory {folder}",
        )
    if "must be run in a work tree" in stderr:
        return RepositoryError(
            f"{folder}: this repository is bare or this is its .git folder",
            hint="Start from a clone or a worktree of it.",
        )
    if "not a git repository" in stderr:
        return RepositoryError(
            f"{folder}: not inside a git repository",
            hint="skillopt-ci records training in git: run it in a clone, or `git init` one.",
        )
    return RepositoryError(f"{folder}: {stderr.strip()}")


def _identity(settings: config.Git) -> dict[str, str]:
    given = {"NAME": settings.author_name, "EMAIL": settings.author_email}
    return {
        f"GIT_{role}_{part}": value
        for part, value in given.items()
        for role in ("AUTHOR", "COMMITTER")
        if value
    }


def choose_remote(git: Git, name: str | None) -> str | None:
    """Return ``name`` if it is a remote of the repository, else None."""
    return name if name in git.text("remote").splitlines() else None


def choose_base(git: Git, remote_name: str | None, configured: str | None) -> str:
    """Name the base branch: configured, else the remote's default, else the one checked out.

    Raises RepositoryError if none of them says, InfrastructureError if the remote must be asked
    and cannot.
    """
    return (
        configured
        or (_remote_default(git, remote_name) if remote_name else "")
        or git.attempt("symbolic-ref", "--quiet", "--short", "HEAD").text
        or _ask_for_base()
    )


def _remote_default(git: Git, remote_name: str) -> str:
    known = git.attempt("symbolic-ref", "--quiet", f"refs/remotes/{remote_name}/HEAD").text
    if known:
        return known.removeprefix(f"refs/remotes/{remote_name}/")
    return default_branch(git, remote_name) or ""


def _ask_for_base() -> str:
    raise RepositoryError(
        "cannot tell which branch is the base: HEAD is detached and no remote names a default",
        hint="Set `git.base` in the configuration, for example `git: {base: main}`.",
    )


def nearest(name: str, known: list[str]) -> str:
    """Word a suggestion of the most similar name, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else ""

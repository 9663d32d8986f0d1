"""The repository, the refs of a run, and atomic moves of local refs."""

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from skillopt_ci.config import config
from skillopt_ci.errors import LostRace, PushRefused, RepositoryError
from skillopt_ci.git import objects
from skillopt_ci.git.process import Git

HEADS = "refs/heads/"
_BROKEN = re.compile(r"ignoring broken ref (\S+)")
#: `<old> <new> Ada <ada@example.org> 1700000000 +0000<tab>reason`
_REFLOG_LINE = re.compile(rb"^[0-9a-f]{40,64} ([0-9a-f]{40,64}) ", re.MULTILINE)
#: Hint for a ref that is locked or broken.
HOW_TO_REPAIR = (
    "The next `skillopt-ci step` or `run` repairs the refs of its run. For any other: remove the "
    "lock once no git is at work here; of a broken ref, the last line of its file in .git/logs "
    "tells the commit (second word) that belongs into its file in .git."
)
#: What git says if a reference-transaction hook refuses, before version 2.54 and since.
REFUSED_BY_HOOK = "aborted by (the reference-transaction )?hook"
_MOVED = ("but expected", "reference already exists", "unable to resolve reference")


def find(start: Path, settings: config.Git) -> tuple[Git, Path]:
    """Find the repository around ``start``: git in its worktree, and the shared git folder."""
    top = worktree(start if start.is_dir() else start.parent)
    # imported late: it searches for git and takes a tenth of a second
    from git import Repo  # noqa: PLC0415

    with Repo(top, expand_vars=False) as found:
        git_dir, common_dir = Path(found.git_dir).resolve(), Path(found.common_dir).resolve()
    given = {"NAME": settings.author_name, "EMAIL": settings.author_email}
    roles = ("AUTHOR", "COMMITTER")
    identity = {f"GIT_{role}_{key}": word for key, word in given.items() for role in roles if word}
    git = Git(top, identity)
    head = git.attempt("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    if head.status != 0:
        # git does not name a branch whose ref is broken
        current = (git_dir / "HEAD").read_text(errors="replace").removeprefix("ref: ").strip()
        if (common_dir / current).is_file():
            raise _broken_here(current)
        raise RepositoryError(
            f"{git.folder}: {head.stderr.strip() or 'the current branch has no commit yet'}",
            hint="" if head.stderr.strip() else "Commit the skill and its tasks first.",
        )
    return git, common_dir


def worktree(folder: Path) -> Path:
    """The worktree around ``folder``; RepositoryError if there is none that git may use."""
    if (top := toplevel(folder)) is None:
        raise RepositoryError(
            f"{folder}: not inside a git repository",
            hint="skillopt-ci records training in git: run it in a clone, or `git init` one.",
        )
    return top


def toplevel(folder: Path) -> Path | None:
    """Like :func:`worktree`, but None outside of a repository."""
    top = Git(folder).attempt("rev-parse", "--show-toplevel")
    if "dubious ownership" in top.stderr:
        raise RepositoryError(
            f"{folder}: git does not trust this folder, because another user owns it",
            hint=f"git config --global --add safe.directory {folder}",
        )
    if "must be run in a work tree" in top.stderr:
        raise RepositoryError(
            f"{folder}: this repository is bare or this is its .git folder",
            hint="Start from a clone or a worktree of it.",
        )
    if top.status != 0 and "not a git repository (or any" not in top.stderr:
        raise RepositoryError(f"{folder}: {top.stderr.strip() or f'git exited with {top.status}'}")
    return Path(top.text).resolve() if top.status == 0 else None


class RunRefs(NamedTuple):
    base: str
    skills: str
    candidate: str

    @property
    def own(self) -> tuple[str, str]:
        return self.skills, self.candidate


def branch(ref: str) -> str:
    return ref.removeprefix(HEADS)


def tracking(remote: str, ref: str) -> str:
    return f"refs/remotes/{remote}/{branch(ref)}"


def deleted(ref: str) -> str:
    """Name the folder of refs that preserve ``ref`` after it was deleted on the remote."""
    return f"refs/skillopt-ci/deleted/{branch(ref)}"


class Move(NamedTuple):
    """A move of a ref from ``old`` to ``new``; None means that the ref does not exist."""

    ref: str
    old: str | None
    new: str | None


def read(git: Git, *names: str) -> dict[str, str]:
    """Raises RepositoryError if a ref is broken."""
    found = _list(git, *names)
    return {name: found[name][0] for name in names if name in found}


def read_to_move(git: Git, run_refs: RunRefs, *others: str) -> dict[str, str]:
    """Read the run's own branches before moving them, and ``others`` (names or prefixes).

    Raises RepositoryError if one of the run's branches is checked out or broken.
    """
    found = _list(git, *run_refs.own, *others)
    checked_out = any(found[name][1] for name in run_refs.own if name in found)
    if checked_out and (folder := worktree_of(git, *run_refs.own)):
        raise RepositoryError(
            f"{branch(run_refs.skills)} is checked out in {folder}; training would move it there",
            hint=f"Check out something else first: git -C {shlex.quote(folder)} switch "
            + ("--detach" if worktree_of(git, run_refs.base) else branch(run_refs.base)),
        )
    return {name: oid for name, (oid, _) in found.items()}


def _list(git: Git, *patterns: str) -> dict[str, tuple[str, str]]:
    how = "--format=%(refname) %(objectname) %(if)%(worktreepath)%(then)*%(end)"
    result = git.run("for-each-ref", how, *patterns)
    for name in _BROKEN.findall(result.stderr):
        if name in patterns:
            raise _broken_here(name)
    lines = (line.split(" ") for line in result.text.splitlines())
    return {name: (oid, mark) for name, oid, mark in lines}


def _broken_here(name: str) -> RepositoryError:
    return RepositoryError(
        f"{name} is broken in this repository: its file names no commit, as after a power loss",
        hint=HOW_TO_REPAIR,
    )


def worktrees(git: Git) -> list[dict[str, str]]:
    blocks = git.run("worktree", "list", "--porcelain").text.strip().split("\n\n")
    return [dict(line.partition(" ")[::2] for line in block.splitlines()) for block in blocks]


def worktree_of(git: Git, *names: str) -> str | None:
    living = (facts for facts in worktrees(git) if "prunable" not in facts)
    return next((facts["worktree"] for facts in living if facts.get("branch") in names), None)


def repair(
    git: Git,
    common_dir: Path,
    names: Sequence[str],
    remote: str | None,
    tell: Callable[[str], None],
) -> None:
    """Restore refs in ``names`` whose file is empty or garbage from the reflog or the remote.

    Call it while holding the run's lock. Raises RepositoryError if neither knows the commit.
    """
    for name in _BROKEN.findall(git.run("for-each-ref", *names).stderr):
        if name not in names:
            continue
        file = common_dir / name
        commit = _last_in_reflog(git, common_dir / "logs" / name)
        if commit is None and remote is None:
            raise RepositoryError(
                f"{name} is broken, as after a power loss, and no reflog knows its commit",
                hint=f"Find it with `git fsck --lost-found`, then: rm {shlex.quote(str(file))}; "
                f"git update-ref {name} COMMIT\nWithout the second command it starts afresh.",
            )
        try:
            # as git does it; git itself refuses to touch a broken ref
            lock = file.with_name(f"{file.name}.lock")
            with lock.open("x", encoding="ascii") as stream:
                stream.write(f"{commit}\n")
                stream.flush()
                os.fsync(stream.fileno())
            if commit is None:
                file.unlink()
                lock.unlink()
            else:
                lock.replace(file)
        except OSError as error:
            raise RepositoryError(f"{file} is broken and cannot be replaced: {error}") from error
        healed = f"restored to {commit[:12]} (reflog)" if commit else f"taken from {remote} again"
        tell(f"{name} was broken, as after a power loss: {healed}.")


def _last_in_reflog(git: Git, log: Path) -> str | None:
    try:
        found: list[bytes] = _REFLOG_LINE.findall(log.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    known = (objects.find(git, f"{oid.decode()}^{{commit}}") for oid in reversed(found))
    return next((commit.oid for commit in known if commit is not None), None)


def move(git: Git, moves: Sequence[Move], reason: str) -> None:
    """Move refs in one transaction, each only from its expected commit.

    Raises LostRace if a ref is elsewhere, PushRefused if a hook objects, else RepositoryError.
    """
    if all(each.old == each.new for each in moves):
        return
    lines = []
    for ref, old, new in moves:
        if known := old or new:
            absent = "0" * len(known)
            lines.append(f"update {ref}\0{new or absent}\0{old or absent}\0")
    how = ("update-ref", "--no-deref", "-m", f"skillopt-ci: {reason}", "--stdin", "-z")
    result = git.attempt(*how, stdin="".join(lines).encode())
    if result.status == 0:
        return
    words = result.stderr.strip() or f"exit status {result.status}"
    if re.search(REFUSED_BY_HOOK, words):
        raise PushRefused(f"this repository's reference-transaction hook refused: {words}")
    if "reference broken" in words:
        raise RepositoryError(f"a ref of this run is broken: {words}", hint=HOW_TO_REPAIR)
    if any(sign in words for sign in _MOVED):
        raise LostRace(f"a ref of this run was moved by someone else: {words}")
    raise RepositoryError(
        f"git could not move its refs: {words}",
        hint=HOW_TO_REPAIR if "': File exists" in words else "",
    )

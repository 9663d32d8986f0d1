"""Find the repository that a folder belongs to, and what in it the ledger works with."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.config import config
from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import remote
from skillopt_ci.ledger.git import Git


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
    return remote.default_branch(git, remote_name) or ""


def _ask_for_base() -> str:
    raise RepositoryError(
        "cannot tell which branch is the base: HEAD is detached and no remote names a default",
        hint="Set `git.base` in the configuration, for example `git: {base: main}`.",
    )


def nearest(name: str, known: list[str]) -> str:
    """Word a suggestion of the most similar name, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else ""

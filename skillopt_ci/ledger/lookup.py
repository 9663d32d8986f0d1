"""Look up the commits of a run, as far as this clone knows them."""

from collections.abc import Callable
from pathlib import Path

from skillopt_ci.config.config import Git
from skillopt_ci.errors import InfrastructureError, RepositoryError
from skillopt_ci.git import history, refs, remote
from skillopt_ci.ledger.ledger import Ledger

_SKILLS_BRANCHES = ("refs/heads/skillopt/*", "refs/remotes/*/skillopt/*")


def newest(ledger: Ledger, warn: Callable[[str], None] = lambda _: None) -> str:
    """The commit with the newest record of the run, preferably from refs already here.

    That is the skills branch, here or as last fetched. If this clone has none (a single-branch
    clone), it is fetched. If the remote has none either, the base branch is used. It is also used
    if the remote cannot be read; then ``warn`` is called with its age.
    """
    known = _known(ledger)
    if known is None and ledger.remote is not None:
        try:
            ledger.sync()
        except InfrastructureError:
            time = ledger.log(base_commit(ledger), limit=1)[0].time.replace("T", " ")
            warn(f"{ledger.remote} cannot be read: this is from {ledger.base} as of {time}")
        else:
            known = _known(ledger)
    return known or base_commit(ledger)


def candidate(ledger: Ledger) -> history.Commit | None:
    """The undecided candidate, if any, as far as this clone knows."""
    name = ledger.names.candidate
    commits = refs.read(ledger.git, name, *ledger.tracked(name).values())
    return next((ledger.log(commit, limit=1)[0] for commit in commits.values()), None)


def resolve(ledger: Ledger, name: str) -> str | None:
    # --end-of-options: a name may start with a dash
    how = ("rev-parse", "--quiet", "--verify", "--end-of-options")
    return ledger.git.attempt(*how, f"{name}^{{commit}}").text or None


def runs(start: Path) -> tuple[str, ...]:
    """Runs with a branch or folder here, or else on the remote; may raise InfrastructureError."""
    settings = Git()
    git, _ = refs.find(start, settings)
    branches = git.run("for-each-ref", "--format=%(refname)", *_SKILLS_BRANCHES).text
    # after a merge, the branch may be gone, but the folder stays
    folders = git.run("ls-tree", "-d", "--full-tree", "--name-only", "HEAD", ".skillopt/").text
    found = [*branches.splitlines(), *folders.splitlines()]
    if not found and settings.remote in git.run("remote").text.splitlines():
        found = list(remote.heads(git, settings.remote, _SKILLS_BRANCHES[0]))
    return tuple(sorted({line.rpartition("/")[2] for line in found}))


def _known(ledger: Ledger) -> str | None:
    name = ledger.names.skills
    commits = [*refs.read(ledger.git, name, *ledger.tracked(name).values()).values()]
    if len(set(commits)) <= 1:
        return commits[0] if commits else None
    mine, theirs = commits
    return theirs if history.is_ancestor(ledger.git, mine, theirs) else mine


def base_commit(ledger: Ledger) -> str:
    for name in (f"refs/remotes/{ledger.remote}/{ledger.base}", ledger.names.base):
        if (commit := resolve(ledger, name)) is not None:
            return commit
    raise RepositoryError(
        f"there is no branch {ledger.base!r} in this repository",
        hint="Name the branch that people work on with `git.base` in the configuration.",
    )

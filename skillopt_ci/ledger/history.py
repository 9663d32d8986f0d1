"""Questions about ancestry, and the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.trailers import parse_trailers

_FORMAT = "--format=%H%n%P%n%an <%ae>%n%cI%n%B"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the log; ``time`` is the committer's, in ISO 8601."""

    sha: str
    parents: tuple[str, ...]
    author: str
    time: str
    message: str

    @property
    def subject(self) -> str:
        """The message's first line."""
        return self.message.partition("\n")[0]

    @property
    def trailers(self) -> dict[str, str]:
        """The message's trailers."""
        return parse_trailers(self.message)


def log(
    git: Git,
    tip: str,
    *,
    since: str | None = None,
    first_parent: bool = False,
    limit: int = 0,
    paths: Sequence[str] = (),
) -> tuple[Commit, ...]:
    """Return the commits of ``tip`` that ``since`` has not, newest first; ``limit`` 0 means all.

    With ``paths`` only those commits count that changed something at or below them, merges
    included if they differ from all their parents.
    """
    options = [
        *(["--first-parent"] if first_parent else []),
        *([f"--max-count={limit}"] if limit else []),
        *(["--full-history"] if paths else []),
    ]
    excluded = [f"^{since}"] if since else []
    shown = git.records(
        "log", "-z", "--topo-order", "--no-show-signature", "--no-color", "--no-patch", _FORMAT,
        *options, tip, *excluded, "--", *paths,
    )  # fmt: skip
    return tuple(_commit(record) for record in shown)


def _commit(record: str) -> Commit:
    sha, parents, author, time, message = record.split("\n", 4)
    return Commit(sha, tuple(parents.split()), author, time, message.rstrip("\n"))


def is_ancestor(git: Git, ancestor: str, descendant: str) -> bool:
    """Tell whether ``descendant`` contains ``ancestor`` (a commit contains itself)."""
    return git.succeeds("merge-base", "--is-ancestor", ancestor, descendant)


def merge_base(git: Git, one: str, other: str) -> str | None:
    """Return the best common ancestor, None if the histories are unrelated."""
    result = git.attempt("merge-base", one, other)
    return result.text if result.status == 0 else None


def changed_between(git: Git, old: str, new: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return which files at or below ``paths`` (all if empty) differ between two commits."""
    return git.records(
        "diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new, "--", *paths
    )


def first_parent(git: Git, commit: str) -> str:
    """Return the first parent of ``commit``; raises RepositoryError for a root commit."""
    return git.text("rev-parse", "--verify", f"{commit}^1")


def bring_into_view(
    git: Git, shallow_file: Path, one: str, other: str, deepen: Callable[[int], None]
) -> None:
    """Deepen a shallow clone until the relation of two commits can be told.

    It can when no commit that only one of them contains has been cut off from its parents.
    ``deepen`` fetches that many more generations, all of them if 0. Raises RepositoryError if even
    that does not help.
    """
    for generations in (50, 500, 0):
        if not _cut_off(git, shallow_file, one, other):
            return
        deepen(generations)
    if _cut_off(git, shallow_file, one, other):
        raise RepositoryError(
            f"the clone is too shallow to tell how {one[:12]} and {other[:12]} are related",
            hint="Fetch the whole history: git fetch --unshallow (`fetch-depth: 0` in CI).",
        )


def _cut_off(git: Git, shallow_file: Path, one: str, other: str) -> bool:
    if not shallow_file.exists():
        return False
    ends = set(shallow_file.read_text(encoding="utf-8").split())
    return not ends.isdisjoint(git.text("rev-list", f"{one}...{other}").split())

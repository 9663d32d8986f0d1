"""Questions about ancestry, and the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import store
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.trailers import parse_trailers

_FORMAT = "--format=%H%n%P%n%an <%ae>%n%cI%n%B"
#: Generations between a tip and what a step puts on top of it: at most a candidate, its verdict and
#: what comes afterwards.
_NEAR = 3


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
    return _is_near(git, ancestor, descendant) or git.succeeds(
        "merge-base", "--is-ancestor", ancestor, descendant
    )


def _is_near(git: Git, ancestor: str, descendant: str) -> bool:
    """Tell whether ``ancestor`` is ``descendant`` or a few generations before it.

    Most questions are about a commit just made on top of another: no process is needed for those.
    """
    generation = {descendant}
    for _ in range(_NEAR):
        if ancestor in generation:
            return True
        generation = {parent for commit in generation for parent in parents(git, commit)}
    return ancestor in generation


def parents(git: Git, commit: str) -> tuple[str, ...]:
    """Return the parents that ``commit`` names; none if a shallow clone lacks the commit itself."""
    found = store.find(git, f"{commit}^{{commit}}")
    head = b"" if found is None else found.content.partition(b"\n\n")[0]
    words = (line.partition(b" ") for line in head.split(b"\n"))
    return tuple(value.decode("ascii") for key, _, value in words if key == b"parent")


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
    found = parents(git, commit)
    if not found:
        raise RepositoryError(f"{commit} has no parent in the repository {git.folder}")
    return found[0]


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

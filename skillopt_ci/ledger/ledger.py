"""The ledger of a run: everything that training reads from git and writes to it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from skillopt_ci.config import config
from skillopt_ci.errors import RepositoryError
from skillopt_ci.git import history, locks, objects, refs, remote, sync
from skillopt_ci.git.history import Commit
from skillopt_ci.git.merge import TakeIn, merge_trees
from skillopt_ci.git.objects import CommitWriter
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import Move, RunRefs
from skillopt_ci.git.sync import RunBranches
from skillopt_ci.redaction import Redact, unchanged


@dataclass(frozen=True, slots=True)
class Position:
    """Where the run stands, as commits.

    ``base`` is the tip of the base branch, ``tip`` that of the skills branch (None before the first
    step, or when the branch was deleted after a merge), ``candidate`` a step in flight.
    """

    base: str
    tip: str | None
    candidate: str | None
    base_in_tip: bool
    """The skills branch has all that base has (also true without a skills branch)."""
    tip_in_base: bool
    """The skills branch was merged and has nothing that base lacks."""

    @property
    def head(self) -> str:
        """The commit on top of which the next step goes."""
        return self.tip or self.base


@dataclass(frozen=True, slots=True)
class Ledger:
    """A run in a repository.

    Only objects and refs of the run are written: the user's HEAD, index, files and stash never.
    With a ``remote`` that one is the truth and local refs follow it. ``root`` is the top of the
    worktree, ``common_dir`` the folder that all worktrees share (``.git``, normally).
    """

    root: Path
    common_dir: Path
    run: str
    base: str
    remote: str | None
    git: Git
    write_commit: CommitWriter = objects.write_commit
    """How commits come to be: by git here, or by the code host, which signs them."""
    redact: Redact = unchanged
    """Takes secrets out of messages and records; skills are left as they are."""
    tell: Callable[[str], None] = field(default=lambda _: None, compare=False)
    """Hears what was put right in the repository."""

    @classmethod
    def open(cls, start: Path, run: str, settings: config.Git) -> "Ledger":
        """Find the repository around ``start`` and the run's place in it.

        Raises RepositoryError if there is no usable repository, base branch or run name.
        """
        found = refs.find(start, settings)
        remote_name = refs.choose_remote(found.git, settings.remote)
        base = remote.choose_base(found.git, remote_name, settings.base)
        ledger = cls(found.root, found.common_dir, run, base, remote_name, found.git)
        # What one of the run's own branches may be called, the other may too; and a base that is
        # not configured was named by git.
        given = (ledger.names.base,) if settings.base else ()
        for name in (*given, ledger.names.skills):
            if not found.git.succeeds("check-ref-format", name):
                raise RepositoryError(f"git does not allow a branch {refs.branch(name)!r}")
        if ledger.names.base in (ledger.names.skills, ledger.names.candidate):
            raise RepositoryError(
                f"the base branch cannot be {base!r}, the run's own branch",
                hint="Switch to the branch that people work on (as in `git switch main`), or name "
                "it with `git.base` in the configuration.",
            )
        return ledger

    @property
    def names(self) -> RunRefs:
        """The run's refs, by their full names."""
        return refs.for_run(self.run, self.base)

    @property
    def _branches(self) -> RunBranches:
        return RunBranches(self.git, self.remote, self.names, self.is_ancestor)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run's lock for a ``with`` block; LostRace at once if somebody else does.

        First repairs what a kill or a power loss left on the run's refs: stale locks, and files
        that name no commit. Raises RepositoryError for what a person must look into.
        """
        with locks.run_lock(self.common_dir, self.run):
            names = refs.written(self.names, self.remote)
            locks.clear_stale_locks(self.git, self.common_dir, names, self.tell)
            refs.repair(self.git, self.common_dir, names, self.remote, self.tell)
            yield

    def sync(self) -> Position:
        """Learn where the run stands; local branches follow the remote, or heal after a kill.

        Raises RepositoryError without a base branch or with diverged histories,
        InfrastructureError if the remote cannot be read.
        """
        heads = self._branches.heads()
        tip = heads.tip
        base_in_tip = tip is None or self.is_ancestor(heads.base, tip)
        # each contains the other only if they are one
        tip_in_base = (
            tip is not None
            and (tip == heads.base or not base_in_tip)
            and self.is_ancestor(tip, heads.base)
        )
        return Position(heads.base, tip, heads.candidate, base_in_tip, tip_in_base)

    def preflight(self, position: Position, paths: Sequence[str] = ()) -> None:
        """Find out before anything is paid for whether a step could be recorded.

        ``paths`` must be regular files where the next step starts. Raises RepositoryError,
        InfrastructureError or PushRefused with what to do about it.
        """
        where = refs.branch(self.names.skills) if position.tip else self.base
        sync.require_files(self.git, position.head, paths, where)
        self._branches.check(position.base)

    def read(self, commit: str, path: str) -> str | None:
        """Return the text of a file as ``commit`` has it, None if it has none.

        Raises RepositoryError for a link, a folder or text that is not UTF-8.
        """
        return objects.read_file(self.git, commit, path)

    def files(self, commit: str, folder: str = "") -> tuple[str, ...]:
        """Return the paths of the files of ``commit`` below ``folder``."""
        return objects.list_files(self.git, commit, folder)

    def log(
        self,
        tip: str,
        *,
        since: str | None = None,
        first_parent: bool = False,
        limit: int = 0,
        paths: Sequence[str] = (),
    ) -> tuple[Commit, ...]:
        """Return commits of ``tip``, newest first, without those of ``since``; 0 is no limit.

        With ``paths`` only those that changed something at or below them.
        """
        return history.log(
            self.git, tip, since=since, first_parent=first_parent, limit=limit, paths=paths
        )

    def deepen(self, generations: int) -> bool:
        """Fetch that many more generations of a shallow clone (0: all); False if there are none.

        Raises InfrastructureError if the remote cannot be read.
        """
        if self.remote is None or not (self.common_dir / "shallow").exists():
            return False
        remote.deepen_clone(self.git, self.remote, self.names.all, generations)
        return True

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Tell whether ``descendant`` contains ``ancestor``; deepens a shallow clone if it must."""
        self._bring_into_view(ancestor, descendant)
        return history.is_ancestor(self.git, ancestor, descendant)

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor, None if the histories are unrelated."""
        self._bring_into_view(one, other)
        return history.merge_base(self.git, one, other)

    def changed_between(self, old: str, new: str, paths: Sequence[str] = ()) -> tuple[str, ...]:
        """Return which files at or below ``paths`` (anywhere if empty) differ."""
        return history.changed_between(self.git, old, new, tuple(paths))

    def commit(
        self,
        parents: Sequence[str],
        tree_of: str,
        changes: Mapping[str, str | None],
        message: str,
    ) -> str:
        """Write a commit: the tree of ``tree_of`` with new texts (None removes); no ref moves.

        Raises RepositoryError without an identity, or for a path that cannot be a file.
        """
        # a skill must stay, to the last byte, the text that was measured
        clean = {
            path: self.redact(text) if text and path.endswith((".json", ".jsonl")) else text
            for path, text in changes.items()
        }
        tree = objects.change_tree(self.git, tree_of, clean)
        return self.write_commit(self.git, tree, parents, self.redact(message))

    def take_in_base(self, tip: str, base: str, keep: Sequence[str]) -> TakeIn:
        """Merge ``base`` into ``tip`` without a checkout; at and below ``keep``, tip's files stay.

        The result's tree is for ``commit((tip, base), tree, …)``. Raises RepositoryError if the
        histories are unrelated.
        """
        self._bring_into_view(tip, base)
        return merge_trees(self.git, tip, base, tuple(keep))

    def push_candidate(self, candidate: str) -> None:
        """Make ``candidate`` the step in flight; a second time changes nothing.

        Raises LostRace if there is another one, PushRefused if the remote will not have it.
        """
        self._branches.push_candidate(candidate)

    def withdraw(self, candidate: str) -> None:
        """Give up the step in flight, if it is still this one; a second time changes nothing.

        Raises LostRace if another one is in flight, PushRefused if the remote keeps it.
        """
        self._branches.withdraw(candidate)

    def advance(
        self, expected_tip: str | None, new_tip: str, drop_candidate: str | None = None
    ) -> None:
        """Move the skills branch forward and drop the step in flight, both or neither.

        With a remote that is one atomic push, after which the local refs follow; the next sync
        makes up for a death in between. Raises LostRace if either is not where it is expected,
        PushRefused if the remote or a hook will not have it, RepositoryError if the branch is
        checked out, ValueError if ``new_tip`` does not contain ``expected_tip``.
        """
        move = Move(self.names.skills, expected_tip, new_tip)
        self._branches.advance(move, drop_candidate)

    def _bring_into_view(self, one: str, other: str) -> None:
        def deepen(generations: int) -> None:
            if self.remote is not None:
                remote.deepen_clone(self.git, self.remote, self.names.all, generations)

        history.bring_into_view(self.git, self.common_dir / "shallow", one, other, deepen)

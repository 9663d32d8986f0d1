"""The ledger of a run: everything that training reads from git or writes to it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from skillopt_ci.config import config
from skillopt_ci.errors import InfrastructureError, LostRace, RepositoryError
from skillopt_ci.git import history, locks, objects, refs, remote
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import HEADS, Move, RunRefs, branch, tracking
from skillopt_ci.ledger.folder import CommittedFolder
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.util import nearest

#: Steps, in generations, by which a shallow clone is deepened; 0 means all.
GENERATIONS = (50, 500, 0)


@dataclass(frozen=True, slots=True)
class Position:
    """The state of the run, as commits.

    ``base`` is the tip of the base branch, ``tip`` that of the skills branch (None before the first
    step or after the merged branch was deleted), ``candidate`` a step in flight. ``root`` is where
    base and the skills branch parted: either's tip if the other contains it, None if there is none.
    """

    base: str
    tip: str | None
    candidate: str | None
    root: str | None

    @property
    def head(self) -> str:
        """The commit with the newest records of the run."""
        return self.tip or self.base


class _Sighting(NamedTuple):
    """A branch here, on the remote, and on the remote when last fetched."""

    ref: str
    here: str | None
    there: str | None
    known: str | None


@dataclass(frozen=True, slots=True)
class Ledger:
    """A run in a repository.

    It writes only objects and the run's refs, never the user's HEAD, index, files or stash. A
    ``remote`` is authoritative: local refs follow it. All worktrees share ``common_dir`` (normally
    ``.git``). Any method may raise RepositoryError, or InfrastructureError for an unreadable
    remote. Methods that move branches raise LostRace if one is not where expected, and PushRefused
    if the remote or a hook rejects the move.
    """

    git: Git
    common_dir: Path
    run: str
    base: str
    remote: str | None
    #: Creates commits: with local git, or through the code host, which signs them.
    write_commit: objects.CommitWriter = objects.write_commit
    #: Removes secrets from messages and records; skills stay unchanged.
    redact: Redact = unchanged
    #: Called with each repair of the repository.
    tell: Callable[[str], None] = field(default=lambda _: None, compare=False)

    @classmethod
    def open(
        cls, start: Path, run: str, settings: config.Git, *, read_only: bool = False
    ) -> "Ledger":
        """Open the run in the repository around ``start``; ``read_only`` guesses base offline."""
        git, common_dir = refs.find(start, settings)
        remote_name = settings.remote if settings.remote in git.run("remote").text.split() else None
        base = remote.choose_base(git, remote_name, settings.base, guess=read_only)
        ledger = cls(git, common_dir, run, base, remote_name)
        # If one of the run's own branches has a valid name, the other has too; a base that is not
        # configured was named by git.
        given = (ledger.names.base,) if settings.base else ()
        for name in (*given, ledger.names.skills):
            if not git.succeeds("check-ref-format", name):
                raise RepositoryError(f"git does not allow a branch {branch(name)!r}")
        if ledger.names.base in ledger.names.own:
            raise RepositoryError(
                f"the base branch cannot be {base!r}, the run's own branch",
                hint="Switch to the branch that people work on (as in `git switch main`), or name "
                "it with `git.base` in the configuration.",
            )
        return ledger

    @property
    def names(self) -> RunRefs:
        return RunRefs(
            f"{HEADS}{self.base}",
            f"{HEADS}skillopt/{self.run}",
            f"{HEADS}skillopt-candidate/{self.run}",
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run's lock and repair refs that a kill left broken; LostRace if it is held."""
        with locks.run_lock(self.common_dir, self.run):
            names = (*self.names.own, *self.tracked(*self.names).values())
            locks.clear_stale_locks(self.git, self.common_dir, names, self.tell)
            refs.repair(self.git, self.common_dir, names, self.remote, self.tell)
            yield

    # The state of the run.

    def sync(self) -> Position:
        """Find the state of the run; local branches follow the remote or recover from a kill.

        Local branches do not move while one of them is checked out. A skills branch that was
        deleted on the remote is deleted here too, but its commits stay reachable under
        ``refs/skillopt-ci/deleted/``. Commits that were never pushed are kept and used.
        """
        if self.remote is None:
            found = refs.read(self.git, *self.names)
            if self.names.base not in found:
                listed = self.git.run("for-each-ref", "--format=%(refname)", HEADS)
                raise self._no_base(listed.text.splitlines(), "this repository")
            base, tip, candidate = map(found.get, self.names)
        else:
            base, tip, candidate = self._follow_remote(self.remote)
        assert base is not None  # noqa: S101
        return Position(base, tip, candidate, tip and self.merge_base(tip, base))

    def _follow_remote(self, name: str) -> tuple[str, str | None, str | None]:
        git, own = self.git, self.names.own
        before = refs.read(git, *own, *self.tracked(*self.names).values())
        there = self._fetch_existing(name, before)
        skills, candidate = (
            _Sighting(ref, before.get(ref), there.get(ref), before.get(tracking(name, ref)))
            for ref in own
        )
        tip = self._resolve_tip(skills, name)
        # a local candidate counts only if it never was on the remote and is undecided
        flying = candidate.there
        if flying is None and candidate.here is not None and candidate.known is None:
            decided = tip is not None and self.is_ancestor(candidate.here, tip)
            flying = None if decided else candidate.here
        moves = (*self._follow(skills, tip, name), *self._follow(candidate, flying, name))
        if any(each.old != each.new for each in moves) and refs.worktree_of(git, *own) is None:
            refs.move(git, moves, f"follow {name}")
        return there[self.names.base], tip, flying

    def _fetch_existing(self, name: str, known: Mapping[str, str]) -> dict[str, str]:
        there = remote.heads(self.git, name, *self.names)
        if self.names.base not in there:
            raise self._no_base(remote.heads(self.git, name, f"{HEADS}*"), name)
        # mostly nothing is new, and a fetch takes as long as all the rest
        new = self.tracked(*(one for one in there if known.get(tracking(name, one)) != there[one]))
        if new:
            try:
                remote.fetch(self.git, name, [*new])
            except InfrastructureError:
                # one of them may have been deleted meanwhile
                if remote.heads(self.git, name, *self.names) == there:
                    raise
                return self._fetch_existing(name, known)
        fetched = refs.read(self.git, *new.values()) if new else {}
        return there | {ref: fetched[tracked] for ref, tracked in new.items()}

    def _no_base(self, existing: Iterable[str], where: str) -> RepositoryError:
        hint = f"{nearest(self.base, map(branch, existing))} Push the branch, or change `git.base`."
        if self.remote is not None:
            hint += f" If it was renamed: git fetch && git remote set-head {where} --auto"
        return RepositoryError(
            f"there is no branch {self.base!r} in {where}, the base that users work on",
            hint=hint.strip(),
        )

    def _resolve_tip(self, seen: _Sighting, remote_name: str) -> str | None:
        here, there, name = seen.here, seen.there, branch(seen.ref)
        if here is None or here == there:
            return there
        if there is None:
            if seen.known is None:
                return here
            if self.is_ancestor(here, seen.known):
                return None
            raise RepositoryError(
                f"{name} was deleted on {remote_name}, but has commits here that were never pushed",
                hint=f"To continue with them: git push {remote_name} {name}\n"
                f"To start afresh from the base branch: git branch -m {name} {name}-mine",
            )
        if self.is_ancestor(here, there):
            return there
        if self.is_ancestor(there, here):
            return there if seen.known is not None and self.is_ancestor(here, seen.known) else here
        raise RepositoryError(
            f"{name} has diverged from {remote_name}: {here[:12]} here, {there[:12]} there",
            hint=f"Keep one. To follow {remote_name}: git branch -m {name} {name}-mine\n"
            f"To keep yours: merge {remote_name}/{name} into it and push.",
        )

    def _follow(self, seen: _Sighting, value: str | None, remote_name: str) -> Iterable[Move]:
        yield Move(seen.ref, seen.here, value)
        if seen.there is None:
            yield Move(tracking(remote_name, seen.ref), seen.known, None)
        if seen.here is not None and value is None:
            grave = f"{refs.deleted(seen.ref)}/{seen.here[:12]}"
            yield Move(grave, refs.read(self.git, grave).get(grave), seen.here)

    def preflight(self, position: Position) -> None:
        """Check that a step could be recorded before anything is paid for."""
        git, candidate, common = self.git, self.names.candidate, self.common_dir
        for folder in (common, common / "objects", common / "refs/heads"):  # common: packed-refs
            if folder.is_dir() and not os.access(folder, os.W_OK):
                raise RepositoryError(
                    f"{folder} is read-only, but training writes to it",
                    hint="Run as a user who may write there.",
                )
        objects.require_identity(git)
        if objects.signs(git):
            tree = f"{position.base}^{{tree}}"
            objects.write_commit(git, tree, (position.base,), "Try out signing\n")
        self._refuse_collisions(refs.read_to_move(git, self.names, HEADS), "this repository")
        if self.remote is not None:
            there = remote.heads(git, self.remote, f"{HEADS}*")
            self._refuse_collisions(there, self.remote)
            attempt = Move(candidate, there.get(candidate), position.base)
            remote.push(git, self.remote, (attempt,), "--dry-run")
            fetched = git.remember("remote", "get-url", self.remote).text
            pushed = git.remember("remote", "get-url", "--push", self.remote).text
            own = {ref: oid for ref, oid in there.items() if ref in self.names}
            if pushed != fetched and remote.heads(git, pushed, *self.names) != own:
                raise RepositoryError(
                    f"{self.remote!r} is pushed to another repository than it is fetched from",
                    hint="Name a remote without a push URL of its own with `git.remote`.",
                )

    def _refuse_collisions(self, existing: Iterable[str], where: str) -> None:
        for ref in existing:
            for wanted in self.names.own:
                if ref.startswith(f"{wanted}/") or wanted.startswith(f"{ref}/"):
                    name, free = branch(ref), f"{branch(ref).replace('/', '-')}-old"
                    moved = f"FETCH_HEAD:{HEADS}{free} :{ref}"
                    there = f"git fetch {where} {ref} && git push {where} {moved}"
                    rename = there if where == self.remote else f"git branch -m {name} {free}"
                    raise RepositoryError(
                        f"branch {name!r} in {where} is in the way of {branch(wanted)!r}: "
                        "git keeps branches like files in folders",
                        hint=f"Rename it: {rename}",
                    )

    # The contents of commits and their ancestry.

    def read(self, commit: str, path: str) -> str | None:
        return objects.read_file(self.git, commit, path)

    def at(self, commit: str) -> CommittedFolder:
        return CommittedFolder(self.run, partial(self.read, commit))

    def log(
        self, tip: str, *, first_parent: bool = False, limit: int = 0, paths: Sequence[str] = ()
    ) -> tuple[history.Commit, ...]:
        """Commits in ``tip`` (that changed ``paths``, if any), newest first; ``limit`` 0: all."""
        shown = self.git.run(
            "log", "-z", "--topo-order", "--no-show-signature", "--no-color", "--no-patch",
            "--no-follow", "--format=%H%n%P%n%an <%ae>%n%cI%n%B",
            *(["--first-parent"] if first_parent else []),
            *([f"--max-count={limit}"] if limit else []),
            *(["--full-history"] if paths else []),
            tip, "--", *paths,
        )  # fmt: skip
        records = (record.split("\n", 4) for record in shown.text.split("\0")[:-1])
        return tuple(
            history.Commit(sha, tuple(parents.split()), author, time, message.rstrip("\n"))
            for sha, parents, author, time, message in records
        )

    def deepen(self, generations: int) -> bool:
        """Deepen a shallow clone by ``generations`` (0: all); False if it is not one."""
        if self.remote is None or not (self.common_dir / "shallow").exists():
            return False
        option = f"--deepen={generations}" if generations else "--unshallow"
        remote.fetch(
            self.git, self.remote, [*remote.heads(self.git, self.remote, *self.names)], option
        )
        return True

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether ``descendant`` contains ``ancestor``; deepens a shallow clone if necessary."""
        self._bring_into_view(ancestor, descendant)
        return history.is_ancestor(self.git, ancestor, descendant)

    def merge_base(self, one: str, other: str) -> str | None:
        self._bring_into_view(one, other)
        return self.git.attempt("merge-base", one, other).text or None

    def _bring_into_view(self, one: str, other: str) -> None:
        shallow = self.common_dir / "shallow"
        for generations in (*GENERATIONS, None):
            if not shallow.exists():
                return
            ends = set(shallow.read_text(encoding="utf-8").split())
            if ends.isdisjoint(self.git.run("rev-list", f"{one}...{other}").text.split()):
                return
            if generations is not None:
                self.deepen(generations)
        raise RepositoryError(
            f"the clone is too shallow to tell how {one[:12]} and {other[:12]} are related",
            hint="Fetch the whole history: git fetch --unshallow (`fetch-depth: 0` in CI).",
        )

    def changed_between(self, old: str, new: str, paths: Sequence[str] = ()) -> tuple[str, ...]:
        how = ("diff-tree", "-r", "-z", "--no-renames", "--name-only")
        return tuple(self.git.run(*how, old, new, "--", *paths).text.split("\0")[:-1])

    # Writing commits and moving the run's branches.

    def commit(
        self, parents: Sequence[str], tree_of: str, changes: Mapping[str, str | None], message: str
    ) -> str:
        """Write a commit: the tree of ``tree_of`` with new texts (None removes). Moves no ref."""
        # skills are not redacted: they must stay byte for byte as measured
        clean = {
            path: self.redact(text) if text and path.endswith((".json", ".jsonl")) else text
            for path, text in changes.items()
        }
        tree = objects.change_tree(self.git, tree_of, clean)
        return self.write_commit(self.git, tree, parents, self.redact(message))

    def push_candidate(self, candidate: str) -> None:
        """Make ``candidate`` the step in flight (idempotent)."""
        name = self.names.candidate
        here, there = self._candidate(candidate)
        if self.remote is not None:
            remote.push(self.git, self.remote, (Move(name, there, candidate),))
        self._record((Move(name, here, candidate),), "propose a step")

    def withdraw(self, candidate: str) -> None:
        """Abandon ``candidate`` as the step in flight (idempotent); LostRace if another one is."""
        name = self.names.candidate
        here, there = self._candidate(candidate)
        # Locally first: after a kill in between, the next sync restores it to be withdrawn again.
        refs.move(self.git, (Move(name, here, None),), "withdraw a step")
        if self.remote is not None and there is not None:
            remote.push(self.git, self.remote, (Move(name, there, None),))
            self._record((Move(name, None, None),), "withdraw a step")

    def _candidate(self, expected: str) -> tuple[str | None, str | None]:
        name = self.names.candidate
        tracked = self.tracked(name)
        seen = refs.read_to_move(self.git, self.names, *tracked.values())
        here, there = seen.get(name), seen.get(tracked.get(name, ""))
        if others := {here, there} - {None, expected}:
            raise LostRace(f"another step is in flight: {branch(name)} is at {others}")
        return here, there

    def advance(
        self, expected_tip: str | None, new_tip: str, drop_candidate: str | None = None
    ) -> None:
        """Move the skills branch forward and drop the step in flight, atomically.

        With a remote, this is one atomic push; local refs follow, at the latest in the next sync.
        Raises ValueError if ``new_tip`` does not contain ``expected_tip``.
        """
        if expected_tip and not self.is_ancestor(expected_tip, new_tip):
            raise ValueError(f"{new_tip} is not a fast-forward of {expected_tip}")
        moves = [Move(self.names.skills, expected_tip, new_tip)]
        if drop_candidate is not None:
            moves.append(Move(self.names.candidate, drop_candidate, None))
        tracked = self.tracked(*(move.ref for move in moves))
        seen = refs.read_to_move(self.git, self.names, *tracked.values())
        if self.remote is not None:
            pushed = []
            for move in moves:
                # otherwise the transaction of the local refs would fail after the push
                if seen.get(move.ref) != move.old:
                    raise LostRace(
                        f"{branch(move.ref)} was moved in this repository: expected {move.old}, "
                        f"found {seen.get(move.ref)}"
                    )
                # the remote may lack commits that were never pushed
                there = seen.get(tracked[move.ref])
                behind = move.old is not None and there and self.is_ancestor(there, move.old)
                if there is not None and not behind:
                    raise LostRace(f"{branch(move.ref)} is at {there} on {self.remote} by now")
                if there != move.new:
                    pushed.append(Move(move.ref, there, move.new))
            remote.push(self.git, self.remote, pushed)
        self._record(moves, "record a step")

    def tracked(self, *names: str) -> dict[str, str]:
        return {ref: tracking(self.remote, ref) for ref in names if self.remote is not None}

    def _record(self, moves: Sequence[Move], reason: str) -> None:
        tracked = self.tracked(*(move.ref for move in moves))
        there = refs.read(self.git, *tracked.values()) if tracked else {}
        followed = [Move(ref, there.get(ref), m.new) for m in moves if (ref := tracked.get(m.ref))]
        refs.move(self.git, (*moves, *followed), reason)


# The commits of a run as far as this clone knows them, for commands that only read.

_SKILLS_BRANCHES = ("refs/heads/skillopt/*", "refs/remotes/*/skillopt/*")


def newest(ledger: Ledger, warn: Callable[[str], None] = lambda _: None) -> str:
    """The commit with the newest record of the run, preferably from refs already here.

    That is the skills branch, here or as last fetched; a single-branch clone fetches it. It is the
    base branch if there is no such branch or, after ``warn`` tells its age, no remote to read.
    """
    if (known := _known(ledger)) is None and ledger.remote is not None:
        try:
            ledger.sync()
            known = _known(ledger)
        except InfrastructureError:
            time = ledger.log(base_commit(ledger), limit=1)[0].time.replace("T", " ")
            warn(f"{ledger.remote} cannot be read: this is from {ledger.base} as of {time}")
    return known or base_commit(ledger)


def candidate(ledger: Ledger) -> str:
    """The undecided candidate as far as this clone knows; empty if there is none."""
    name = ledger.names.candidate
    return next(iter(refs.read(ledger.git, name, *ledger.tracked(name).values()).values()), "")


def resolve(ledger: Ledger, name: str) -> str | None:
    # --end-of-options: a name may start with a dash
    how = ("rev-parse", "--quiet", "--verify", "--end-of-options")
    return ledger.git.attempt(*how, f"{name}^{{commit}}").text or None


def runs(start: Path) -> tuple[str, ...]:
    """Runs with a branch or folder here, or else on the remote; may raise InfrastructureError."""
    settings = config.Git()
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


def known_base(ledger: Ledger) -> str | None:
    names = (f"refs/remotes/{ledger.remote}/{ledger.base}", ledger.names.base)
    return next(filter(None, (resolve(ledger, name) for name in names)), None)


def base_commit(ledger: Ledger) -> str:
    if (commit := known_base(ledger)) is not None:
        return commit
    raise RepositoryError(
        f"there is no branch {ledger.base!r} in this repository",
        hint="Name the branch that people work on with `git.base` in the configuration.",
    )

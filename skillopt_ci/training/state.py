"""The state of training, candidates in progress, and the one function that writes history.

A checkout is a commit's skill, memory and history, read from one tree so that they cannot disagree;
if scored, its skill has a valid score. A candidate is pushed before evaluation, to survive a kill.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Literal

from skillopt_ci.config.reference import changed_keys
from skillopt_ci.errors import RepositoryError, SkillError
from skillopt_ci.git.history import day, message, parents
from skillopt_ci.git.objects import change_tree, merge_trees
from skillopt_ci.ledger.evidence import as_recorded, booked
from skillopt_ci.ledger.folder import FIXED_FILES, RunFolder, document, standing_files
from skillopt_ci.ledger.ledger import Ledger, Position
from skillopt_ci.ledger.records import (
    Basis,
    BoundaryRecord,
    Decision,
    EventKind,
    HistoryEntry,
    Snapshot,
    State,
    StepRecord,
)
from skillopt_ci.ledger.summary import Summary
from skillopt_ci.model.types import Account, Accounts, Role, Usage
from skillopt_ci.progress import Note
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.skill.validation import LFS_REMEDY
from skillopt_ci.training.run_context import OpenModels, Render, Run, equipped
from skillopt_ci.util import is_lfs_pointer

#: How many commits of people on top of ours are looked through.
_PEOPLES_COMMITS = 50


@dataclass(frozen=True, slots=True)
class Checkout:
    """The commit to build on, and its tree; ``state`` is None before the first measurement.

    ``branch`` is where the skills branch points; moving the branch fails if this has changed.
    """

    commit: str
    branch: str | None
    skill: str
    state: State | None
    history: tuple[HistoryEntry, ...]

    @property
    def sha256(self) -> str:
        return sha256(self.skill)

    @property
    def spent(self) -> Usage:
        return Usage() if self.state is None else self.state.usage


@dataclass(frozen=True, slots=True)
class ScoredCheckout(Checkout):
    state: State


def find_checkout(
    ledger: Ledger, path: str, position: Position, render: Render | None = None
) -> Checkout:
    """The checkout to build on, with changes to the branches and records that people reverted.

    - No skills branch, or one merged into base: base, which remembers the run.
    - Base changed the skill (or the run's folder, by a squash merge): a merge of base into the
      skills branch, published at once as ``render`` words it; without that, only its tree.
    - Otherwise the skills branch; base may have moved on in other files.
    """
    tip, base = position.tip, position.base
    if tip is None or tip == position.root:
        if tip is not None:
            base = _with_records_of(ledger, path, tip, base, tip, publish=render is not None)
        start_of(ledger, path, replace(position, base=base))  # raises if merges were lost
        return read_checkout(ledger, path, base, branch=tip if base == position.base else base)
    start = start_of(ledger, path, position)
    if render and start != tip:
        start = ledger.commit((tip, base), start, {}, message(*render.base(ledger.base, path)))
        ledger.advance(tip, start)
    if render or start == tip:  # a tree has no log
        log = ledger.log(start, first_parent=True, limit=_PEOPLES_COMMITS)
        own = next((one.sha for one in log if "Skillopt-Action" in one.trailers), start)
        start = _with_records_of(ledger, path, own, start, start, publish=render is not None)
    return read_checkout(ledger, path, start, branch=start)


def start_of(ledger: Ledger, path: str, position: Position) -> str:
    """The commit to build on, or only the tree that base and the skills branch make together.

    Raises RepositoryError if they cannot be merged, or if a rebase onto base lost the merges.
    """
    tip, base, root = position.tip, position.base, position.root
    start = base if tip is None or tip == root else tip
    where = ledger.base if start == base else f"skillopt/{ledger.run}"
    folder = ledger.at(start)
    state = folder.read_state()
    step = 0 if state is None else state.step + 1
    if step and folder.read_step(step) is not None:
        log = ledger.log(start, first_parent=True, limit=_PEOPLES_COMMITS)
        of_step = [one.trailers for one in log if one.trailers.get("Skillopt-Step") == str(step)]
        # a verdict in the log was not lost by a rebase, but undone by a person's `git revert`
        if all(one.get("Skillopt-Action") == "proposed" for one in of_step):
            raise RepositoryError(
                f"{where} has step {step}, but not that it was merged: a rebase loses that.",
                hint=f"Restore the branch skillopt/{ledger.run} as it was before, or commit its "
                f"folder {folder.path} to {where}.",
            )
    if base in (start, root):
        return start
    if root is None:
        raise RepositoryError(
            f"{where} and {ledger.base} have no common history.",
            hint=f"Was {ledger.base} rewritten? Merge it in by hand and push (git merge "
            f"--allow-unrelated-histories). If {where} is no training run, choose another `run`.",
        )
    if not ledger.changed_between(root, base, (path, folder.path)):
        return start
    return _merged_with_base(ledger, path, start, base)


def _with_records_of(
    ledger: Ledger, path: str, own: str, commit: str, tip: str, *, publish: bool
) -> str:
    """``commit``, or its tree, with what a `git revert` undid of the records, lest steps repeat."""
    before, now = ledger.at(own), ledger.at(commit)
    if len(now.read_history()) >= len(before.read_history()) or now.read(path) == before.read(path):
        return commit  # without the records alone, people begin the run anew
    lost = ledger.changed_between(commit, own, (before.path,))
    files = {file: before.read(file) for file in lost}
    if not publish:
        return change_tree(ledger.git, commit, files)
    words = message("Keep the records of training", "", {"Skillopt-Action": "keep_records"})
    kept = ledger.commit((commit,), commit, files, words)
    ledger.advance(tip, kept)
    return kept


def read_checkout(ledger: Ledger, path: str, commit: str, branch: str | None) -> Checkout:
    """Read the tree of ``commit``; raises if the skill is missing or the run trains another one."""
    folder = ledger.at(commit)
    state = folder.read_state()
    if state is not None and state.skill != path:
        raise RepositoryError(
            f"Run '{state.run}' trains {state.skill}, but the configuration names {path}.",
            hint=f"Change `run`, too (if the skill was moved, merge skillopt/{state.run} first).",
        )
    if (skill := folder.read(path)) is None:
        where = f"skillopt/{ledger.run}" if branch == commit else ledger.base
        at, push = (f"{ledger.remote}/", ", then git push") if ledger.remote else ("", "")
        raise SkillError(
            f"{path} is not in the commit that training starts from ({at}{where} {commit[:10]}).",
            hint=f"Commit it there: git add {shlex.quote(path)} && git commit{push}. "
            "Or fix the key `skill`.",
        )
    if is_lfs_pointer(skill):
        raise SkillError(
            f"{path} in commit {commit[:10]} is a Git LFS pointer, not the skill.", hint=LFS_REMEDY
        )
    return Checkout(commit, branch, skill, state, folder.read_history())


def _merged_with_base(ledger: Ledger, path: str, tip: str, base: str) -> str:
    ours = read_checkout(ledger, path, tip, branch=tip)
    theirs = read_checkout(ledger, path, base, branch=None)
    folder, known = RunFolder(ledger.run), len(ours.history)
    if len(theirs.history) > known and theirs.history[:known] == ours.history:
        return base  # which went on from here: this is a stale copy of a branch that was merged
    keep = [folder.path, *FIXED_FILES]
    # Base holds an earlier state of the skills branch, the only sign of a squash merge.
    squashed = theirs.state is not None and theirs.state.current.sha256 == theirs.sha256
    if squashed and ours.history[: len(theirs.history)] == theirs.history:
        keep.append(path)
    if ours.history == theirs.history and ours.state and ours.state.current.sha256 == ours.sha256:
        # The whole branch was squashed, so base's skill is the newer one.
        keep, tip, base = [*keep, path], base, tip
    if (merged := merge_trees(ledger.git, tip, base, keep)).tree is None:
        raise RepositoryError(
            f"{', '.join(merged.conflicts)} changed both on {ledger.base} and on "
            f"skillopt/{ledger.run}, in the same places.",
            hint=f"Merge {ledger.base} into skillopt/{ledger.run} by hand, but keep that branch's "
            f"{folder.path}; push it and run the step again, which scores the merged skill first.",
        )
    return merged.tree


def changes_since(before: Basis | None, now: Basis) -> tuple[str, ...]:
    """Describe what changed: keys of the configuration and the training tasks."""
    if before is None:
        return ()
    keys = changed_keys(before.config, now.config)
    if before.train_sha256 == now.train_sha256:
        return keys
    sizes, same = f"{before.train_size} → {now.train_size}", before.train_size == now.train_size
    return (*keys, "the training tasks" if same else f"the training tasks ({sizes})")


def open_models(
    run: Run, checkout: Checkout, work: str, *, alone: bool = False
) -> AbstractAsyncContextManager[OpenModels]:
    """Open models for ``work`` on ``checkout``.

    Unless ``alone``, it is charged for work stopped there, or before people moved the branch.
    """
    return run.models(
        run.scope(work, checkout.commit),
        checkout.spent,
        commits=tuple if alone else partial(_with_the_same_events, run, checkout),
        limited=work != "finish",  # which cannot be divided
    )


def _with_the_same_events(run: Run, checkout: Checkout) -> tuple[str, ...]:
    """``checkout`` and the commits below it with no fewer events: work there is unrecorded."""
    found, latest, pending = list[str](), None, [checkout.commit]
    while pending and len(found) < _PEOPLES_COMMITS:
        commit = pending.pop(0)
        history = run.ledger.at(commit).read_history()
        events = sum(entry.kind != "revert" for entry in history)  # which costs nothing
        if commit not in found and latest in (None, events):
            latest = events
            found.append(commit)
            pending += run.ledger.log(commit, limit=1)[0].parents
    return tuple(found)


def charged(checkout: Checkout, usage: Usage, accounts: Accounts) -> dict[str, object]:
    before: Accounts = {} if checkout.state is None else checkout.state.accounts
    return {"usage": as_recorded(checkout.spent + usage), "accounts": booked(before, accounts)}


def decided_snapshots(
    decision: Decision | None, skill: str, step: int, origin: str
) -> dict[str, object]:
    if decision is None or not decision.stays or decision.measurement is None:
        return {}
    after = Snapshot(
        sha256=sha256(skill), step=step, origin=origin, measurement=decision.measurement
    )
    return {"current": after, "best": after} if decision.beats_best else {"current": after}


@dataclass(frozen=True, slots=True)
class RunEvent:
    """The record of one commit on the skills branch, with ``state`` and ``skill`` after it.

    ``files`` are written besides state, history and summary. ``seconds`` appear only in the commit
    message: trees must not depend on the clock.
    """

    entry: HistoryEntry
    state: State
    skill: str
    files: Mapping[str, str | None] = field(default_factory=dict)
    record: StepRecord | BoundaryRecord | None = None
    summary: Summary | None = None
    changes: tuple[str, ...] = ()
    work: str = ""
    seconds: float = 0.0


def finished(history: Sequence[HistoryEntry]) -> bool:
    """Whether the run ended and no event but setting a candidate aside followed."""
    return [one.kind for one in history if one.kind != "set_aside"][-1:] == ["finish"]


def history_entry(
    run: Run,
    kind: EventKind,
    state: State,
    skill: str,
    *,
    decision: Decision | None = None,
    candidate: str | None = None,
    **facts: object,
) -> HistoryEntry:
    """An event's line of history; ``candidate`` is the text decided on, ``facts`` override."""
    if decision is not None:
        measured = decision.measurement
        facts = {
            "action": decision.action,
            "reason": decision.reason,
            "score_before": decision.score_before,
            "score_after": decision.score_after,
            "tasks": decision.compared,
            "planned": 0 if measured is None else measured.planned,
            **facts,
        }
    return HistoryEntry.model_validate(
        {
            "kind": kind,
            "step": state.step,
            "epoch": state.epoch,
            "best_score": state.best.measurement.score,
            "skill_sha256": state.current.sha256,
            "candidate_sha256": "" if candidate is None else sha256(candidate),
            "candidate_reading": "" if candidate is None else reading_sha256(candidate),
            "words": word_count(skill),
            "config_sha256": run.config_sha256,
            "simulated": run.simulated,
            **facts,
        }
    )


def record_events(
    run: Run,
    checkout: Checkout,
    *events: RunEvent,
    candidate: str | None = None,
    end: Literal["merge", "revert", "set_aside"] = "merge",
) -> ScoredCheckout:
    """Commit ``events`` on top of ``checkout`` and move the skills branch there in one push.

    The first event decides on the commit ``candidate``, if any, which is merged, reverted, or set
    aside (reachable, but without its files); the same push deletes its ref. Raises LostRace if
    another run was faster, PushRefused if the remote rejects the push.
    """
    ledger, folder, history = run.ledger, run.folder, checkout.history
    tip = tree = checkout.commit
    parents: Sequence[str] = (tip,)
    if candidate is not None:
        parents = (candidate,) if end == "revert" else (tip, candidate)
        tree = candidate if end == "merge" else tip
    for event in events:
        history = (*history, event.entry)
        files: dict[str, str | None] = {
            **event.files,
            folder.state: document(event.state),
            folder.history: "".join(f"{one.model_dump_json()}\n" for one in history),
        }
        if event.summary is not None:
            files[folder.summary] = document(event.summary)
        if event.entry.kind != "revert":
            # the day of the commit below, so that repeated work writes the same files
            when = day(ledger.git, candidate or checkout.commit)
            summary = event.summary or ledger.at(checkout.commit).read_summary()
            if summary is not None and summary.tested_under != run.tested_under:
                summary = None  # another model or other tests: not this model's score
            files |= standing_files(
                folder, event.state, summary, run.config.model.target.model, when
            )
        decided = candidate if event is events[0] else None
        tip = tree = ledger.commit(parents, tree, files, message(*run.render.event(event, decided)))
        parents = (tip,)
    ledger.advance(checkout.branch, tip, drop_candidate=candidate)
    if run.equipment is not None:
        run.equipment.unrecorded = None
    return ScoredCheckout(tip, tip, events[-1].skill, events[-1].state, history)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may become the skill and the record of its making; pushed as ``commit``."""

    record: StepRecord | BoundaryRecord
    skill: str
    commit: str | None = None


def push_candidate(run: Run, checkout: ScoredCheckout, candidate: Candidate) -> Candidate:
    """Commit and push a candidate; raises LostRace if another one is in flight."""
    record, folder = candidate.record, run.folder
    is_step = isinstance(record, StepRecord)
    path = folder.step(record.step) if is_step else folder.boundary(record.epoch)
    files = {run.skill_path: candidate.skill, path: document(record)}
    words = message(*run.render.candidate(record))
    commit = run.ledger.commit((checkout.commit,), checkout.commit, files, words)
    run.ledger.push_candidate(commit)
    return replace(candidate, commit=commit)


async def find_candidate(
    run: Run, checkout: ScoredCheckout, commit: str
) -> tuple[ScoredCheckout, Candidate | None]:
    """The candidate left at ``commit``; set it aside if it is for another skill or history."""
    if run.ledger.is_ancestor(commit, checkout.commit):
        run.ledger.withdraw(commit)
        return checkout, None
    if (found := candidate_at(run, checkout, commit)) is not None:
        run.observer(Note(f"Resuming the candidate in flight ({commit[:10]})."))
        return checkout, found
    return await _set_aside(run, checkout, commit), None


def candidate_at(run: Run, checkout: Checkout, commit: str | None) -> Candidate | None:
    """The candidate at ``commit``; None if it does not belong to the next piece of work."""
    if commit is None or parents(run.ledger.git, commit) != (checkout.commit,):
        return None
    found, state = _read(run, commit), checkout.state
    if found is None or state is None or found.record.decision is not None:
        return None
    if isinstance(found.record, BoundaryRecord):
        next_one = found.record.epoch > state.boundary and found.record.step == state.step
    else:
        next_one = found.record.step == state.step + 1
    # a commit with new scores will come before it otherwise
    return found if next_one and state.measured_under == run.measured_under else None


def _read(run: Run, commit: str) -> Candidate | None:
    folder = run.ledger.at(commit)
    trailers = run.ledger.log(commit, limit=1)[0].trailers
    skill = folder.read(run.skill_path)
    ends = "Skillopt-Epoch-End" in trailers
    key = "Skillopt-Epoch" if ends else "Skillopt-Step"
    read = folder.read_boundary if ends else folder.read_step
    if skill is None or not trailers.get(key, "").isdecimal():
        return None
    record = read(int(trailers[key]))
    return None if record is None else Candidate(record, skill, commit)


async def _set_aside(run: Run, checkout: ScoredCheckout, commit: str) -> ScoredCheckout:
    """Record that a candidate is abandoned; its cost still counts for the run."""
    found, state = _read(run, commit), checkout.state
    reason = "the run moved on after it was proposed"
    run.observer(Note(f"Setting aside the candidate {commit[:10]}: {reason}"))
    usage, work = Usage(), f"step {state.step + 1}"
    if found is not None:
        record, parent = found.record, parents(run.ledger.git, commit)[0]
        if isinstance(record, StepRecord):
            name, work = str(record.step), f"step {record.step}"
            done = record.step <= state.step
        else:
            name, work = f"epoch-{record.epoch}", f"the end of epoch {record.epoch}"
            done = record.epoch <= state.boundary
        async with equipped(run) as (_, equipment):
            paid, _ = await equipment.paid(run.scope(name, parent), tuple)
        # as far as the caches here know; what was done meanwhile is on record with its cost
        evaluation = Usage() if done else paid.beyond(record.usage)
        usage = as_recorded(record.usage + evaluation)
        accounts = record.accounts
        if evaluation.calls:
            accounts = booked(accounts, {Account(Role.TARGET, "selection"): evaluation})
        state = state.model_copy(update=charged(checkout, usage, accounts))
    entry = history_entry(
        run,
        "set_aside",
        state,
        checkout.skill,
        action="set_aside",
        reason=reason,
        score_after=state.current.measurement.score,
        usage=usage,
    )
    event = RunEvent(entry, state, checkout.skill, work=work)
    return record_events(run, checkout, event, candidate=commit, end="set_aside")


def taken_back(history: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    return tuple(takewhile(lambda one: one.kind == "revert", reversed(history)))

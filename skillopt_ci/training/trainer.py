"""The trainer: a loop over durable pieces of work. Start reading here.

A piece is a step or an epoch's end: propose, push and evaluate a candidate, commit the decision. A
kill loses at most calls under way: the next run continues from the last push, with the cache.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, TypeVar

from skillopt_ci.config.config import Config
from skillopt_ci.errors import LostRace, OptimizerUnusable
from skillopt_ci.ledger.evidence import ProposalRecord, as_recorded, booked
from skillopt_ci.ledger.folder import document
from skillopt_ci.ledger.records import BoundaryRecord, Decision, HistoryEntry, State, StepRecord
from skillopt_ci.model.budget import Meter
from skillopt_ci.progress import Note, StageFinished, StepStarted
from skillopt_ci.sanitize import one_line
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import reading, with_notes
from skillopt_ci.training import plan
from skillopt_ci.training.baseline import ensure_scored, nothing_to_learn, unused_tasks
from skillopt_ci.training.confirm import ensure_confirmed
from skillopt_ci.training.evaluate import evaluate
from skillopt_ci.training.memory import step_records
from skillopt_ci.training.propose import propose
from skillopt_ci.training.run_context import OpenModels, Run, equipped
from skillopt_ci.training.slow_update import first_epoch, later_epoch
from skillopt_ci.training.state import (
    Candidate,
    RunEvent,
    ScoredCheckout,
    changes_since,
    charged,
    decided_snapshots,
    find_candidate,
    find_checkout,
    finished,
    history_entry,
    open_models,
    push_candidate,
    read_checkout,
    record_events,
)

Result = TypeVar("Result")

#: The run gives up if the latest steps failed for lack of usable replies to this many questions.
MOST_UNUSABLE = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decided step or epoch's end, the commit and state after it, and the ``total`` steps."""

    record: StepRecord | BoundaryRecord
    commit: str
    state: State
    total: int
    seconds: float

    @property
    def is_step(self) -> bool:
        return isinstance(self.record, StepRecord)

    @property
    def decision(self) -> Decision | None:
        return self.record.decision


async def train(run: Run) -> AsyncGenerator[Outcome, None]:
    """Train until nothing is left; yield each outcome. Raises LostRace and OptimizerUnusable."""
    async with equipped(run) as (ready, _):
        while (outcome := await patiently(ready, advance)) is not None:
            yield outcome
            refuse_unusable_optimizer(ready, outcome)


def refuse_unusable_optimizer(run: Run, outcome: Outcome) -> None:
    """Raise OptimizerUnusable after steps without usable replies; the next command tries again."""
    record = outcome.record
    last = record.proposal.unusable if isinstance(record, StepRecord) else None
    if last is None:
        return
    records = step_records(
        run, read_checkout(run.ledger, run.skill_path, outcome.commit, branch=None)
    )
    count = sum(takewhile(bool, (_asked_in_vain(one.proposal) for one in reversed(records))))
    if count >= MOST_UNUSABLE:
        reply = last.replies[-1]
        beginning = one_line(reply.beginning, 200)
        began = f" The last reply begins: {beginning}" if beginning else ""
        raise OptimizerUnusable(
            f"{count} questions of the latest steps got no usable reply from the optimizer. "
            f"{reply.reason}{began}",
            hint="Check that model.optimizer names a model that follows instructions, that "
            "max_output_tokens and reasoning_effort let it finish, and that its context has room "
            "for the prompt, which gradient.max_minibatch_chars limits; then rerun the command.",
        )


def _asked_in_vain(proposal: ProposalRecord) -> int:
    """How many questions got no usable reply, if the step failed for that reason; else 0."""
    lost = proposal.unusable
    if lost is not None and lost.all:
        return lost.asked
    no_rate = proposal.learning_rate is not None and proposal.learning_rate.fallback
    no_document = proposal.outcome == "skip_no_rewrite"
    return int(no_rate or (no_document and proposal.mode == "rewrite_from_suggestions"))


async def patiently(
    run: Run, work: Callable[[Run], Awaitable[Result]], patience: int = 3
) -> Result:
    """Return the result of ``work``, retrying it after a lost race at most ``patience`` times."""
    async with equipped(run) as (ready, equipment):
        while True:
            try:
                return await work(ready)
            except LostRace as race:
                await equipment.keep_lost()
                if patience <= 0:
                    raise
                patience -= 1
                run.observer(Note(f"{race.message}; reloading", level="warning"))


async def advance(run: Run, *, only_epoch_end: bool = False) -> Outcome | None:
    """Do the next piece of work, an epoch's end before a step; None if nothing is left.

    Raises BudgetExhausted, TooManyErrors or LostRace, keeping all answers, and NothingToLearn.
    """
    began = run.clock()
    checkout, candidate = await prepare(run)
    if (work := next_work(run, checkout, candidate, only_epoch_end=only_epoch_end)) is None:
        return None
    name = str(work.step) if isinstance(work, plan.StepPlan) else f"epoch-{work}"
    async with open_models(run, checkout, name) as models:
        candidate = await _resumed_or_proposed(run, checkout, work, candidate, models)
        decision = await evaluate(run, checkout, candidate, models)
    record = candidate.record.model_copy(update={"decision": decision, **_spent(models.meter)})
    candidate = replace(candidate, record=record)
    after = _decided(run, checkout, candidate)
    run.listen(Decided(after, record))
    seconds = run.clock() - began
    # in a thread, so that prefetched rollouts continue meanwhile
    decided = await asyncio.to_thread(commit_decision, run, checkout, candidate, after, seconds)
    last, sizes = plan.last_step_of(run, decided), plan.sizes_now(run, decided)
    if plan.all_solved(run.config, sizes, decided.state) and decided.state.step >= last:
        run.observer(
            Note(
                f"All measured selection tasks ({decided.state.current.measurement.n}) are solved, "
                f"so training ends. To go on, add harder tasks, or more.{unused_tasks(run)}"
            )
        )
    outcome = Outcome(record, decided.commit, decided.state, last, seconds)
    run.observer(StageFinished("decide" if outcome.is_step else "epoch end", "recorded"))
    return outcome


def _decided(run: Run, checkout: ScoredCheckout, candidate: Candidate) -> ScoredCheckout:
    """``checkout`` with the skill and the state that the decision on ``candidate`` leads to."""
    record, decision, skill = candidate.record, candidate.record.decision, checkout.skill
    if decision is not None and decision.stays:
        skill = candidate.skill
    changes: dict[str, object]
    if isinstance(record, StepRecord):
        notes, reviewers = record.proposal.notes, record.proposal.reviewer_notes
        if notes is not None and decision is not None and decision.kept_notes is not None:
            skill = with_notes(skill, notes.appendix)
        heard = (*checkout.state.heard_notes, *(note.id for note in reviewers))
        changes = {"step": record.step, "epoch": record.epoch, "heard_notes": heard}
        if record.basis_sha256 == run.basis_sha256:  # else it changed since the step was proposed
            extra = plan.extra_steps(len(run.splits.train), run.config.train, checkout.state)
            changes |= {"basis": run.basis, "kept": run.kept, "extra_steps": extra}
        origin = f"step {record.step}"
    else:
        changes, origin = {"boundary": record.epoch}, f"end of epoch {record.epoch}"
    changes |= {
        **decided_snapshots(decision, candidate.skill, record.step, origin),
        **charged(checkout, record.usage, record.accounts),
        "config_sha256": run.config_sha256,
        "simulated": run.simulated,
    }
    return replace(checkout, state=checkout.state.model_copy(update=changes), skill=skill)


def _spent(meter: Meter) -> dict[str, object]:
    return {"usage": as_recorded(meter.total()), "accounts": booked(meter.accounts())}


async def advance_to_candidate(run: Run) -> Outcome | Candidate | None:
    """Do the next step up to its pushed candidate; without a candidate, do all of the work."""
    checkout, candidate = await prepare(run)
    work = next_work(run, checkout, candidate)
    if candidate is None and isinstance(work, plan.StepPlan):
        async with open_models(run, checkout, str(work.step)) as models:
            candidate = await _resumed_or_proposed(run, checkout, work, None, models)
    if candidate is not None and candidate.commit is not None:
        return candidate
    return await advance(run)


async def prepare(run: Run, *, ending: bool = False) -> tuple[ScoredCheckout, Candidate | None]:
    """The scored checkout to build on, and the candidate that a killed run left.

    First tests the merged skill for confirmation if that is due, as it is when ``ending``.
    """
    position = await asyncio.to_thread(run.ledger.sync)
    await asyncio.to_thread(run.ledger.preflight, position)
    checkout = await asyncio.to_thread(
        find_checkout, run.ledger, run.skill_path, position, run.render
    )
    scored = await ensure_scored(run, checkout, candidate=position.candidate is not None)
    if position.candidate is not None:
        return await find_candidate(run, scored, position.candidate)
    over = ending or scored.state.step >= plan.last_step_of(run, scored)
    return await ensure_confirmed(run, scored, over=over), None


def next_work(
    run: Run, checkout: ScoredCheckout, candidate: Candidate | None, *, only_epoch_end: bool = False
) -> plan.StepPlan | int | None:
    """The next step, or the epoch whose end comes first (unless scheduled); None if all is done."""
    due = plan.boundary_due(run, checkout)
    ends = only_epoch_end or run.config.schedule.slow_update == "inline"
    if candidate is not None and isinstance(candidate.record, BoundaryRecord):
        return candidate.record.epoch
    if due is not None and ends:
        if candidate is None:
            return due
        run.observer(Note(f"The end of epoch {due} waits for the step in flight."))
    if only_epoch_end:
        return None
    step = checkout.state.step + 1
    if candidate is None and step > plan.last_step_of(run, checkout):
        if step == 1:
            raise nothing_to_learn(run, checkout)
        return None
    return plan.plan_step(run.splits.train, run.config.train, step, checkout.state)


async def _resumed_or_proposed(
    run: Run,
    checkout: ScoredCheckout,
    work: plan.StepPlan | int,
    candidate: Candidate | None,
    models: OpenModels,
) -> Candidate:
    if isinstance(work, plan.StepPlan):
        current = checkout.state.current.measurement
        last = next((one for one in reversed(checkout.history) if one.kind == "step"), None)
        before = last and run.ledger.at(checkout.commit).read_conclusion(last)
        told = before.decision.verdict if before and before.decision else ""
        total = max(work.step, plan.last_step_of(run, checkout))  # one in flight is still decided
        run.observer(StepStarted(work.step, total, work.epoch, current.score, current.n, told))
    if candidate is not None:
        for account, usage in candidate.record.accounts.items():
            models.meter.book(account, usage)
        models.meter.recorded = candidate.record.usage
        return candidate
    record: StepRecord | BoundaryRecord
    if isinstance(work, plan.StepPlan):
        skill, record = await _step(run, checkout, work, models)
    elif work == 1:
        skill, record = first_epoch(run, checkout)
    else:
        skill, record = await later_epoch(run, checkout, work, models)
    candidate = Candidate(record.model_copy(update=_spent(models.meter)), skill)
    if not candidate.record.changed:
        return candidate
    run.listen(CandidateProposed(checkout, candidate))
    candidate = await asyncio.to_thread(push_candidate, run, checkout, candidate)
    models.meter.recorded = candidate.record.usage
    run.observer(StageFinished("candidate", "recorded"))
    return candidate


async def _step(
    run: Run, checkout: ScoredCheckout, work: plan.StepPlan, models: OpenModels
) -> tuple[str, StepRecord]:
    if changes := changes_since(checkout.state.basis, run.basis):
        run.observer(Note(f"Changed since the last step: {', '.join(changes)}."))
    skill, proposal = await propose(run, checkout, work, models)
    return skill, StepRecord(
        step=work.step,
        epoch=work.epoch,
        step_in_epoch=work.step_in_epoch,
        simulated=run.simulated,
        changes=changes,
        basis_sha256=run.basis_sha256,
        proposal=proposal,
    )


def commit_decision(
    run: Run, checkout: ScoredCheckout, candidate: Candidate, after: ScoredCheckout, seconds: float
) -> ScoredCheckout:
    """Merge or revert the decided candidate in one push; ``after`` has the resulting skill."""
    record, decision = candidate.record, candidate.record.decision
    stays = decision is not None and decision.stays
    skill = candidate.skill if stays else checkout.skill
    is_step, state = isinstance(record, StepRecord), after.state
    if isinstance(record, StepRecord):
        facts: dict[str, object] = {"edits": record.proposal.change_count}
        config_sha256 = record.proposal.config_sha256
        files: dict[str, str | None] = {run.folder.step(record.step): document(record)}
    else:
        facts = {"action": record.action, "reason": record.reason}
        config_sha256 = record.config_sha256
        files = {
            run.folder.boundary(record.epoch): document(record),
            run.folder.epoch_skill(record.epoch): skill,
        }
        if record.meta_skill is not None and record.meta_skill.content:
            files[run.folder.meta_skill] = record.meta_skill.content + "\n"
    confirmed = None if checkout.state.provisional else checkout.state.confirmed
    if stays and confirmed is not None and reading(skill) == reading(checkout.skill):
        # to the target, an empty region for guidance does not change the skill
        again = confirmed.model_copy(update={"sha256": sha256(skill)})
        state = state.model_copy(update={"confirmed": again})
        files[run.folder.confirmed_skill] = skill
    if stays and state.best.sha256 == sha256(skill):
        files[run.folder.best_skill] = skill
    entry = history_entry(
        run,
        "step" if is_step else "slow_update",
        state,
        skill,
        decision=decision,
        candidate=candidate.skill if is_step or record.changed else None,
        step=record.step,
        epoch=record.epoch,
        usage=record.usage,
        simulated=record.simulated,
        config_sha256=config_sha256,
        **facts,
    )
    events = [RunEvent(entry, state, skill, files, record, seconds=seconds)]
    kept = None if decision is None else decision.kept_notes
    if isinstance(record, StepRecord) and kept is not None:
        events.append(_notes_event(run, record, kept, state, after.skill))
    return record_events(
        run, checkout, *events, candidate=candidate.commit, end="merge" if stays else "revert"
    )


def _notes_event(
    run: Run, record: StepRecord, kept: Decision, state: State, skill: str
) -> RunEvent:
    """Commit the reminders of rejected edits separately, on top of the revert."""
    origin = f"notes of step {record.step}"
    state = state.model_copy(update=decided_snapshots(kept, skill, record.step, origin))
    entry = history_entry(
        run,
        "notes",
        state,
        skill,
        decision=kept,
        candidate=skill,
        planned=0,
        step=record.step,
        epoch=record.epoch,
        config_sha256=record.proposal.config_sha256,
        simulated=record.simulated,
    )
    best = {run.folder.best_skill: skill} if kept.beats_best else {}
    return RunEvent(entry, state, skill, {run.skill_path: skill, **best}, record)


@dataclass(frozen=True, slots=True)
class CandidateProposed:
    """The candidate's text is known; committing and pushing it comes next."""

    state: ScoredCheckout
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision is known; committing it comes next. ``after`` holds the resulting skill."""

    after: ScoredCheckout
    record: StepRecord | BoundaryRecord


# -- the next piece of work, from the records alone: no tasks, models or remotes -------------------

#: A step, an epoch's end (with the next step, if one is left), the end of the run, or nothing,
#: because all is done or because the skill already solves everything.
NextWork = Literal["step", "epoch_end", "finish", "done", "nothing_to_learn"]


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The next work of ``total`` steps, or ``why`` none is left. A ``scheduled`` end waits."""

    work: NextWork
    total: int
    step: int | None = None
    epoch_end: int | None = None
    scheduled: bool = False
    why: str = ""


def upcoming(
    config: Config,
    sizes: plan.Sizes,
    state: State,
    history: Sequence[HistoryEntry],
    *,
    edited: bool = False,
) -> Upcoming:
    """What comes next; if the skill was ``edited`` since it was scored, after its new score."""
    total = plan.last_step(config, sizes, state, history, reopened=edited)
    step = state.step + 1 if state.step < total else None
    due = plan.completed_epoch(config, sizes, state)
    scheduled = config.schedule.slow_update == "scheduled"
    if due is not None and not (scheduled and step is not None):
        return Upcoming("epoch_end", total, step, due, scheduled)
    if step is not None:
        return Upcoming("step", total, step, due, scheduled)
    why = plan.why_over(config, sizes, state)
    if state.step == 0:
        return Upcoming("nothing_to_learn", total, why=why)
    tested = (finished(history) and not edited) or not (config.evaluation.eval_test and sizes.test)
    return Upcoming("done" if tested else "finish", total, why=why)

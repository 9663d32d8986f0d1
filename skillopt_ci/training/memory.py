"""What a step knows of earlier ones: the step buffer, the meta skill and earlier scores."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise

from skillopt_ci.ledger.evidence import Measurement, PatternRecord, ProposalRecord
from skillopt_ci.ledger.records import Decision, HistoryEntry, Snapshot, StepRecord
from skillopt_ci.messages import fenced
from skillopt_ci.progress import Note
from skillopt_ci.prompts import library
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import collapsed, plural
from skillopt_ci.training.measure import TaskScores
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Checkout, ScoredCheckout
from skillopt_ci.util import grouped

#: Longest quoted value, in characters, so that memory does not crowd out the trajectories.
MAX_VALUE_CHARS = 600
#: Of a longer step buffer, the oldest steps keep only their outcome, unless people took them back.
MAX_CHARS = 100_000

_INTRODUCTION = (
    "What earlier steps of this epoch saw and tried. Do not repeat edits that did not help, in "
    "whatever words; give priority to patterns that are still unsolved."
)


def step_buffer(run: Run, checkout: Checkout, epoch: int) -> str:
    """Describe, for a prompt, the steps of ``epoch`` so far and everything people took back."""
    taken = grouped((one.step, one.edit) for one in checkout.history if one.kind == "revert")
    steps = step_records(run, checkout, epoch=epoch)
    read = run.ledger.at(checkout.commit).read_step
    earlier = map(read, sorted(taken.keys() - {one.step for one in steps}))
    again = run.config.gradient.analysts > 1  # other runs are told as SkillOpt tells it
    return render_steps((*filter(None, earlier), *steps), taken, again=again)


def render_steps(
    steps: Iterable[StepRecord], taken: Mapping[int, Collection[int]], *, again: bool
) -> str:
    """The steps that proposed something; ``again`` allows edits that chance may have rejected.

    ``taken`` has the numbers of the edits that people took back; 0 is the whole step.
    """
    blocks = {
        step.step: _block(step, step.decision, taken.get(step.step, ()), again=again)
        for step in steps
        if step.decision and step.decision.action not in ("skip_no_patches", "skip_no_rewrite")
    }
    for number in [*blocks][:-1]:
        if sum(map(len, blocks.values())) > MAX_CHARS and number not in taken:
            blocks[number] = blocks[number].split("\n")[0] + " […]"
    return library.joined(_INTRODUCTION, fenced("\n\n".join(blocks.values()))) if blocks else ""


def _block(step: StepRecord, decision: Decision, taken: Collection[int], *, again: bool) -> str:
    rollout, before, after = step.proposal.rollout, decision.score_before, decision.score_after
    failed = sum(task.failed for task in rollout.tasks)
    lines = [f"### Step {step.step} — {decision.action.upper()} ({failed}/{rollout.n} failed)"]
    reasons = grouped(
        (task.reason.partition(":")[0].strip() or "unknown", task.id)
        for task in rollout.tasks
        if task.failed
    )
    patterns = step.proposal.patterns or [
        PatternRecord(description=reason, count=len(ids), task_ids=tuple(dict.fromkeys(ids)))
        for reason, ids in reasons.items()
    ]
    for pattern in patterns:
        tasks = f", tasks: {', '.join(pattern.task_ids)}" if pattern.task_ids else ""
        lines.append(f"- {_quoted(pattern.description)} (×{pattern.count}{tasks})")
    only = taken if decision.stays and 0 not in taken else ()  # empty: all edits
    tried = [] if decision.stays and not taken else list(_tried(step.proposal, only))
    if tried and taken:
        lines.append("A person took these edits back. Do not propose them again in any words:")
    elif tried:
        unclear = again and decision.gate is not None and decision.gate.within_noise
        more = "; within noise: they may have helped, and may be proposed again" if unclear else ""
        scores = "" if after is None else f" (score {before:.4g} → {after:.4g}{more})"
        lines.append(f"Rejected edits{scores}:")
    return "\n".join([*lines, *(f"{number}. {told}" for number, told in enumerate(tried, start=1))])


def _tried(proposal: ProposalRecord, only: Collection[int]) -> Iterator[str]:
    for number, edit in enumerate(proposal.applied_edits, start=1):
        if not only or number in only:
            target = f" target={_quoted(edit.target)} →" if edit.target else ""
            yield f"[{collapsed(edit.op)}]{target} {_quoted(edit.content)}"
    for told in proposal.suggestions:
        yield f"[{collapsed(told.type)}] {_quoted(told.title)} → {_quoted(told.instruction)}"
    if proposal.body_changed and proposal.mode == "full_rewrite_minibatch":
        yield f"[new document] {_quoted('; '.join(proposal.change_summary))}"


def _quoted(text: str) -> str:
    """Return ``text`` on one line, so that none of it can pass for a line of the list."""
    shown = text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + " […]"
    return json.dumps(shown, ensure_ascii=False)


#: How many of the latest candidates' scores by task are used.
_REMEMBERED = 8
#: How many of the latest steps are searched for attempts.
_REMEMBERED_STEPS = 60


def step_records(
    run: Run, checkout: Checkout, *, epoch: int | None = None, under: str | None = None
) -> tuple[StepRecord, ...]:
    """The records of the latest steps, or of all in ``epoch``, read from the ledger's tree.

    With ``under``, also those of all earlier steps that began with the skill of this SHA-256.
    """
    steps = [
        (one.step, before.skill_sha256)
        for before, one in pairwise(checkout.history)
        if one.kind == "step" and (epoch is None or one.epoch == epoch)
    ]
    read = run.ledger.at(checkout.commit).read_step
    old = 0 if epoch is not None else max(0, len(steps) - _REMEMBERED_STEPS)
    records = (
        read(step) for place, (step, began) in enumerate(steps) if place >= old or began == under
    )
    return tuple(record for record in records if record is not None)


def warn_of_trained(run: Run, checkout: Checkout, tasks: Collection[Task], split: str) -> int:
    """Warn if steps of the run trained on ``tasks``, those of ``split``; return on how many."""
    trained = {
        task.id
        for epoch in {one.epoch for one in checkout.history}
        for step in step_records(run, checkout, epoch=epoch)
        for task in step.proposal.rollout.tasks
    }
    if seen := len(trained & {task.id for task in tasks}):
        told = f"Training used {seen:,} of {plural(len(tasks), f'{split} task')}: the split changed"
        run.observer(Note(f"{told}, so the {split} scores may be too high.", "warning"))
    return seen


def meta_skill(run: Run, checkout: Checkout) -> str:
    """The optimizer's advice to itself from the end of the last epoch; empty if switched off."""
    if not run.config.optimizer.use_meta_skill:
        return ""
    return run.ledger.read(checkout.commit, run.folder.meta_skill) or ""


def measured_before(run: Run, checkout: ScoredCheckout, candidate: str) -> Snapshot | None:
    """``candidate`` as it was measured, or an equivalent text; the measurement may be partial."""
    state, name, read_as = checkout.state, sha256(candidate), reading_sha256(candidate)
    if state.best.sha256 == name and state.measured_under == run.measured_under:
        return state.best
    for entry in reversed(checkout.history):
        same = entry.candidate_sha256 == name or entry.candidate_reading == read_as
        if same and (found := _measurement(run, checkout, entry)) is not None:
            return Snapshot(sha256=name, step=entry.step, origin=entry.kind, measurement=found)
    return None


def past_scores(run: Run, checkout: Checkout) -> list[TaskScores]:
    gated = [one for one in checkout.history if one.kind in ("step", "slow_update") and one.tasks]
    found = (_measurement(run, checkout, entry) for entry in gated[-_REMEMBERED:])
    return [one.tasks for one in found if one is not None]


def _measurement(run: Run, checkout: Checkout, entry: HistoryEntry) -> Measurement | None:
    """What the decision of ``entry`` measured, if that still compares."""
    conclusion = run.ledger.at(checkout.commit).read_conclusion(entry)
    decision = None if conclusion is None else conclusion.decision
    if decision and entry.kind == "notes":
        decision = decision.notes
    if decision is None or decision.measured_under != run.measured_under:
        return None
    return decision.measurement

"""One step, one epoch's end, as the report shows it: facts, reasons, edits, flips, arithmetic."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from skillopt_ci.ledger.records import (
    ArmRecord,
    BoundaryRecord,
    Decision,
    EditRecord,
    GateRecord,
    HeatRecord,
    Measurement,
    PatternRecord,
    ProposalRecord,
    StepRecord,
    UsageRecord,
)
from skillopt_ci.report.comment import evidence, step_headline
from skillopt_ci.report.html_data import Effects, effect_text, failures
from skillopt_ci.report.text import usage_text
from skillopt_ci.report.view import StepPlace
from skillopt_ci.report.words import (
    after_text,
    attempted,
    error_rows,
    follows,
    gate_end,
    note_outcomes,
    notes_verdict,
    policy_text,
    race_text,
    refusal_lines,
    reminders,
    reservations,
    stage_rows,
    suggestion_rows,
    tasks_text,
    with_pessimistic,
)
from skillopt_ci.rollout.types import FAILURE_BELOW
from skillopt_ci.skill.diff import DiffRow, diff_rows
from skillopt_ci.text import cost_text, plural, score, score_text

# The gate's arithmetic as a reviewer reads it: a row for each number, a drawing of the gain.

Rows = Iterator[tuple[str, str]]
#: The normal distribution has 95 % within so many standard deviations.
_NORMAL_95 = 1.959964
_HALF = 110


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference with its 95 % interval, in units of a drawing whose zero is at ``_HALF``."""

    middle: float
    low: float
    high: float
    edge: str
    zero: int = _HALF
    width: int = 2 * _HALF


def gate_rows(decision: Decision | None) -> tuple[tuple[str, str], ...]:
    """All that the verdict stands on, label and value."""
    if decision is None:
        return (("verdict", "not yet judged"),)
    return tuple(_rows(decision))


def gain(decision: Decision | None) -> Gain | None:
    """The drawing of the difference; None where no uncertainty is recorded."""
    gate = None if decision is None else decision.gate
    if gate is None or gate.standard_error is None or not gate.compared:
        return None
    spread = _NORMAL_95 * gate.standard_error
    low, high = gate.difference - spread, gate.difference + spread
    edge = max(abs(low), abs(high), 0.05)
    scale = (_HALF - 6) / edge
    return Gain(
        middle=round(_HALF + gate.difference * scale, 1),
        low=round(_HALF + low * scale, 1),
        high=round(_HALF + high * scale, 1),
        edge=f"{edge:.2f}",
    )


def _rows(decision: Decision) -> Rows:
    yield "verdict", f"{decision.verdict}: {decision.reason}"
    measured = decision.measurement
    if measured is not None:
        yield from _measured(decision, measured)
    if decision.gate is not None:
        yield from _arithmetic(decision.gate)
    if decision.beats_best:
        yield "best", "the candidate is better than the best skill so far"
    if (alone := decision.notes) is not None:
        yield "reminders alone", f"{alone.verdict}: {alone.reason}"
        if alone.gate is not None:
            yield from ((f"reminders, {name}", text) for name, text in _arithmetic(alone.gate))


def _measured(decision: Decision, measured: Measurement) -> Rows:
    known = decision.reused_from
    reused = "" if known is None else f", as measured in step {known}: the text was the same"
    yield "current skill", score(decision.score_before)
    yield (
        "candidate",
        f"{after_text(decision)} ({with_pessimistic(decision.metric, measured)}){reused}",
    )
    yield "tasks", f"{tasks_text(decision)} compared"
    if measured.errors:
        yield "not measured", ", ".join(measured.errors)
    yield from ((f"{count} × not measured", why) for why, count in error_rows(measured))
    yield from (("beware", sentence) for sentence in reservations(measured))


def _arithmetic(gate: GateRecord) -> Rows:
    yield "policy", policy_text(gate)
    error = "" if gate.standard_error is None else f" ± {gate.standard_error:.3f} (standard error)"
    over = f"over {gate.compared} of {plural(gate.planned, 'task')}"
    yield "difference", f"{gate.difference:+.3f}{error} {over}"
    if gate.p_value is not None and gate.alpha is not None:
        beyond = f", to be better by more than {gate.margin:g}" if gate.margin else ""
        yield "by chance", f"p = {gate.p_value:.3f}; {gate.alpha:.3g} or less is sure{beyond}"
    yield "attempts", _attempts(gate)
    if gate.baseline_attempts:
        yield "afterwards", f"{plural(gate.baseline_attempts, 'attempt')} under the merged skill"
    for kind, loss in gate.losses.items():
        yield "lost too much", f"{kind}: -{loss:.3f}"


def _attempts(gate: GateRecord) -> str:
    if not gate.candidate_attempts:
        return "none needed"
    parts = [f"{gate.candidate_attempts:,} under the candidate"]
    if gate.current_attempts:
        parts.append(f"{gate.current_attempts:,} fresh ones under the current skill")
    if gate.rounds > 1:
        parts.append(f"in {plural(gate.rounds, 'round')}")
    if gate.saved:
        parts.append(f"{gate.saved:,} saved, since {gate_end(gate)}")
    return ", ".join(parts)


# The race of a step's edits: what each was found to be worth, and the subsets that were tried.


@dataclass(frozen=True, slots=True)
class Arm:
    """A subset: a mark for each edit, and its mean score over the tasks that it was tried on."""

    has: tuple[bool, ...]
    score: str
    tasks: str


@dataclass(frozen=True, slots=True)
class Heat:
    """Subsets that were tried on the same tasks, the best first."""

    arms: tuple[Arm, ...]
    errors: int


@dataclass(frozen=True, slots=True)
class RaceTable:
    """``effects`` has for each edit what it is believed to add, and whether it was kept."""

    told: str
    effects: tuple[tuple[str, bool], ...]
    heats: tuple[Heat, ...]

    @property
    def width(self) -> int:
        """The number of edits."""
        return len(self.effects)


def race_table(proposal: ProposalRecord) -> RaceTable | None:
    """The race of a proposal; None where there was none."""
    race = proposal.race
    if race is None:
        return None
    return RaceTable(
        race_text(proposal),
        tuple((effect_text(one.mean, one.sd, one.helpful), one.kept) for one in race.effects),
        tuple(_heats(race.heats, len(race.effects))),
    )


def _heats(heats: tuple[HeatRecord, ...], edits: int) -> Iterator[Heat]:
    for heat in heats:
        arms = sorted(heat.arms, key=_mean, reverse=True)
        yield Heat(tuple(_arm(arm, edits) for arm in arms), heat.errors)


def _arm(arm: ArmRecord, edits: int) -> Arm:
    has = tuple(number in arm.edits for number in range(edits))
    value = score(_mean(arm)) if arm.scores else "–"
    return Arm(has, value, plural(len(arm.scores), "task"))


def _mean(arm: ArmRecord) -> float:
    return fmean(arm.scores.values()) if arm.scores else -1.0


Fate = Literal["merged", "reverted", "none", "flight"]
Texts = tuple[str, str]

_FATES = {"skipped_race": "left out by the race"}


@dataclass(frozen=True, slots=True)
class EditCard:
    """An edit, its fate, and why it was proposed."""

    op: str
    text: str
    target: str
    fate: str
    why: str
    applied: bool
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A section that folds: ``headline`` always shows, the rest when it is opened."""

    anchor: str
    fate: Fate
    headline: str
    gain: str
    cost: str
    facts: tuple[tuple[str, str], ...]
    gate: tuple[tuple[str, str], ...] = ()
    gain_drawn: Gain | None = None
    reasoning: str = ""
    patterns: tuple[PatternRecord, ...] = ()
    edits: tuple[EditCard, ...] = ()
    race: RaceTable | None = None
    wishes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    diff: tuple[DiffRow, ...] = ()
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    usage: tuple[tuple[str, str], ...] = ()
    commit: str = ""


def step_card(record: StepRecord, place: StepPlace, effects: Effects, texts: Texts | None) -> Card:
    """The card of a step; ``texts`` are the skill before and after it, where they are known."""
    proposal, decision = record.proposal, record.decision
    return Card(
        anchor=f"step-{record.step}",
        fate=_fate(decision),
        headline=step_headline(record),
        gain=_gain(decision),
        cost=cost_text(record.usage.cost_usd),
        facts=tuple(_step_facts(record, place)),
        gate=gate_rows(decision),
        gain_drawn=gain(decision),
        reasoning=proposal.reasoning.strip(),
        patterns=failures(proposal.patterns),
        edits=tuple(
            _edit(edit, proposal, _effect(effects, record.step, number))
            for number, edit in enumerate(proposal.edits)
        ),
        race=race_table(proposal),
        wishes=tuple(_wishes(record)),
        remarks=tuple(_remarks(record)),
        diff=() if texts is None else diff_rows(*texts),
        fixed=() if decision is None else decision.fixed,
        broken=() if decision is None else decision.broken,
        failed=tuple(dict.fromkeys(one.id for one in proposal.rollout.tasks if one.failed)),
        usage=tuple(stage_rows(record.accounts, record.usage, proposal.usage)),
        commit=place.verdict,
    )


def epoch_card(record: BoundaryRecord, place: StepPlace, texts: Texts | None) -> Card:
    """The card of an epoch's end."""
    decision, slow, meta = record.decision, record.slow_update, record.meta_skill
    told = f"End of epoch {record.epoch}"
    if decision is not None and decision.score_after is not None:
        told += f" {decision.verdict}: " + _journey(decision)
    written = [
        ("guidance", slow.content if slow else ""),
        ("memory for the optimizer", meta.content if meta else ""),
    ]
    return Card(
        anchor=f"epoch-{record.epoch}",
        fate=_fate(decision),
        headline=told,
        gain=_gain(decision),
        cost=cost_text(record.usage.cost_usd),
        facts=tuple(_epoch_facts(record, place)),
        gate=gate_rows(decision) if decision is not None or record.changed else (),
        gain_drawn=gain(decision),
        reasoning="\n\n".join(
            part.reasoning.strip() for part in (slow, meta) if part and part.reasoning.strip()
        ),
        edits=tuple(
            EditCard("write", text, "", name, "", applied=True) for name, text in written if text
        ),
        diff=() if texts is None else diff_rows(*texts),
        fixed=() if decision is None else decision.fixed,
        broken=() if decision is None else decision.broken,
        failed=tuple(pair.id for pair in record.pairs if pair.current.hard < FAILURE_BELOW),
        usage=tuple(stage_rows(record.accounts, record.usage, record.stages)),
        commit=place.verdict,
    )


def _fate(decision: Decision | None) -> Fate:
    if decision is None:
        return "flight"
    if decision.score_after is None:
        return "none"
    return "merged" if decision.stays else "reverted"


def _gain(decision: Decision | None) -> str:
    if decision is None or decision.score_after is None:
        return ""
    return f"{decision.score_after - decision.score_before:+.3f}"


def _journey(decision: Decision) -> str:
    tasks = plural(decision.compared, "task")
    return f"{score(decision.score_before)} → {score(decision.score_after)} on {tasks}"


def _step_facts(record: StepRecord, place: StepPlace) -> Iterator[tuple[str, str]]:
    proposal, decision = record.proposal, record.decision
    yield "epoch", f"{record.epoch}, step {record.step_in_epoch} of it"
    if decision is not None and (words := notes_verdict(proposal, decision)):
        yield "reminders", words
    rollout = proposal.rollout
    yield "training tasks", f"{score_text(rollout.hard, rollout.n)} {attempted(proposal)}"
    yield "proposed", _proposed(proposal)
    rate = proposal.learning_rate
    if rate is not None:
        sure = f", {rate.confidence} confidence" if rate.confidence else ""
        yield "step size", f"{rate.learning_rate} of {rate.available}{sure}: {rate.reasoning}"
        yield from (("risk", risk) for risk in rate.risk_notes)
    if record.changes:
        yield "changed since", ", ".join(record.changes)
    yield from _use_facts(record.usage, place)


def _proposed(proposal: ProposalRecord) -> str:
    most = "no limit" if proposal.edit_budget is None else f"at most {proposal.edit_budget} applied"
    return (
        f"{proposal.n_failure_patches} from failures, {proposal.n_success_patches} from successes; "
        f"{proposal.n_edits_merged} after merging, {most}"
    )


def _epoch_facts(record: BoundaryRecord, place: StepPlace) -> Iterator[tuple[str, str]]:
    if record.previous_hard is not None and record.current_hard is not None:
        compared = f"{record.previous_hard:.3f} → {record.current_hard:.3f}"
        yield "compared", f"{compared} on {plural(len(record.pairs), 'training task')}"
    kinds = Counter(pair.category.replace("_", " ") for pair in record.pairs)
    if kinds:
        yield "of these", ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    for name, part in (("guidance", record.slow_update), ("memory", record.meta_skill)):
        if part is not None and part.refused:
            yield name, f"refused: {part.refused}"
    yield from _use_facts(record.usage, place)


def _use_facts(usage: UsageRecord, place: StepPlace) -> Iterator[tuple[str, str]]:
    seconds = "" if place.seconds is None else f", {place.seconds:,.1f} s"
    yield "used", usage_text(usage.usage()) + seconds


def _effect(effects: Effects, step: int, number: int) -> str:
    known = effects.get((step, number))
    return effect_text(known[-1].mean, known[-1].sd, known[-1].helpful) if known else ""


def _wishes(record: StepRecord) -> Iterator[str]:
    """What reviewers asked for, and what became of it."""
    for one in note_outcomes(record):
        note = one.note
        line = f":{note.line}" if note.line is not None else ""
        place = f" on {note.path}{line}" if note.path else ""
        edits = f"{plural(note.proposed, 'edit')} proposed for it, {note.taken} taken"
        yield f"{note.author or 'somebody'}{place}: “{note.text}” – {one.fate}, {edits}"


def _edit(edit: EditRecord, proposal: ProposalRecord, effect: str) -> EditCard:
    why = ", ".join(filter(None, (evidence(edit), follows(edit, proposal))))
    fate = f"refused: {edit.reason}" if edit.reason else _FATES.get(edit.status, edit.status)
    return EditCard(
        op=edit.op.replace("_", " "),
        text=edit.content,
        target=edit.target,
        fate="applied" if edit.applied else fate.replace("_", " "),
        why=why,
        applied=edit.applied,
        effect=effect,
    )


def _remarks(record: StepRecord) -> Iterator[str]:
    proposal = record.proposal
    yield from (f"{kind}: {words}" for kind, words in suggestion_rows(proposal))
    yield from (f"changed: {words}" for words in proposal.change_summary)
    yield from reminders(proposal)
    yield from (f"refused by the guard, {line}" for line in refusal_lines(proposal))
    if proposal.refused:
        yield f"refused, the new document: {proposal.refused}"
    yield from (f"refused, a proposal: {reason}" for reason in proposal.screened)
    unmeasured = [task for task in proposal.rollout.tasks if not task.status.measured]
    yield from (f"not measured: {task.id}: {task.reason}" for task in unmeasured)

"""One step, one epoch's end, as the report shows it: facts, reasons, edits, flips, arithmetic."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    EditRecord,
    PatternRecord,
    ProposalRecord,
    StepRecord,
    UsageRecord,
)
from skillopt_ci.page.effects import Effects, effect_text
from skillopt_ci.page.failures import failures
from skillopt_ci.page.gate_rows import Gain, gain, gate_rows
from skillopt_ci.page.race_table import RaceTable, race_table
from skillopt_ci.report.accounts import stage_rows
from skillopt_ci.report.attempted import attempted
from skillopt_ci.report.edit_diff import evidence
from skillopt_ci.report.figures import cost_text, plural, score, score_text, usage_text
from skillopt_ci.report.note_outcome import follows, note_outcomes
from skillopt_ci.report.reminders import notes_verdict, refusal_lines, reminders
from skillopt_ci.report.rewriting import suggestion_rows
from skillopt_ci.report.run_view import StepPlace
from skillopt_ci.report.step_section import step_headline
from skillopt_ci.report.verdict import verdict
from skillopt_ci.rollout.types import FAILURE_BELOW
from skillopt_ci.skill.diff import DiffRow, diff_rows

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
        told += f" {verdict(decision.action, decision.score_after)}: " + _journey(decision)
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

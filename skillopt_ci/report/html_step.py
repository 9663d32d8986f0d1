"""Cards of the page: one for each step and each epoch's end, with drawings of gain and race."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from skillopt_ci.ledger.records import (
    ArmRecord,
    BoundaryRecord,
    Decision,
    EditRecord,
    PatternRecord,
    ProposalRecord,
    StepRecord,
)
from skillopt_ci.report.html_skill import EditEffect, Effects
from skillopt_ci.report.view import (
    Fact,
    StepPlace,
    change_facts,
    epoch_facts,
    epoch_headline,
    failures,
    gate_facts,
    proposal_facts,
    step_headline,
    use_fact,
)
from skillopt_ci.report.words import (
    account_rows,
    edit_evidence,
    edit_fate,
    effect_text,
    follows,
    note_outcomes,
    race_text,
)
from skillopt_ci.rollout.types import FAILURE_BELOW
from skillopt_ci.skill.diff import DiffRow, diff_rows
from skillopt_ci.text import cost_text, plural, score

Texts = tuple[str, str]
#: The normal distribution has 95 % within so many standard deviations.
_NORMAL_95 = 1.959964
_HALF = 110


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference with its 95 % interval, in units of a drawing whose zero is at ``zero``."""

    middle: float
    low: float
    high: float
    edge: str
    zero: int = _HALF
    width: int = 2 * _HALF


@dataclass(frozen=True, slots=True)
class Arm:
    """A subset of edits: a mark for each edit, and its mean score over the tasks that it met."""

    has: tuple[bool, ...]
    score: str
    tasks: str


@dataclass(frozen=True, slots=True)
class RaceTable:
    """The race of a step's edits.

    ``effects`` has for each edit what it is believed to add, and whether it was kept; ``heats`` the
    subsets that were tried on the same tasks, the best first, and the attempts without a score.
    """

    told: str
    effects: tuple[tuple[str, bool], ...]
    heats: tuple[tuple[tuple[Arm, ...], int], ...]


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
    fate: Literal["merged", "reverted", "none", "flight"]
    headline: str
    gain: str
    cost: str
    facts: tuple[Fact, ...]
    gate: tuple[Fact, ...]
    gain_drawn: Gain | None
    usage: tuple[tuple[str, str], ...]
    commit: str
    reasoning: str
    failed: tuple[str, ...]
    edits: tuple[EditCard, ...]
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    diff: tuple[DiffRow, ...] = ()
    patterns: tuple[PatternRecord, ...] = ()
    race: RaceTable | None = None
    wishes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def step_card(record: StepRecord, place: StepPlace, effects: Effects, texts: Texts | None) -> Card:
    """The card of a step; ``texts`` are the skill before and after it, where they are known."""
    proposal = record.proposal
    facts = tuple(proposal_facts(record))
    lost = [task for task in proposal.rollout.tasks if not task.status.measured]
    return _card(
        record,
        place,
        texts,
        anchor=f"step-{record.step}",
        headline=step_headline(record),
        facts=(
            Fact("epoch", f"{record.epoch}, step {record.step_in_epoch} of it"),
            *(fact for fact in facts if fact.names is None),
            use_fact(record, place.seconds),
        ),
        reasoning=proposal.reasoning.strip(),
        failed=next((fact.names or () for fact in facts if fact.label == "failed"), ()),
        edits=tuple(
            _edit(edit, proposal, effects.get((record.step, number), ())[-1:])
            for number, edit in enumerate(proposal.edits)
        ),
        patterns=failures(proposal.patterns),
        race=race_table(proposal),
        wishes=tuple(_wishes(record)),
        remarks=(
            *(f"{fact.label}: {fact.text}" for fact in change_facts(proposal)),
            *(f"not measured: {task.id}: {task.reason}" for task in lost),
        ),
        usage=tuple(account_rows(record.accounts, record.usage, proposal.usage)),
    )


def epoch_card(record: BoundaryRecord, place: StepPlace, texts: Texts | None) -> Card:
    """The card of an epoch's end."""
    slow, meta = record.slow_update, record.meta_skill
    written = (("guidance", slow), ("memory for the optimizer", meta))
    return _card(
        record,
        place,
        texts,
        anchor=f"epoch-{record.epoch}",
        headline=epoch_headline(record),
        facts=(
            *(fact for fact in epoch_facts(record) if fact.names is None),
            use_fact(record, place.seconds),
        ),
        reasoning="\n\n".join(
            part.reasoning.strip() for part in (slow, meta) if part and part.reasoning.strip()
        ),
        failed=tuple(pair.id for pair in record.pairs if pair.current.hard < FAILURE_BELOW),
        edits=tuple(
            EditCard("write", part.content, "", name, "", applied=True)
            for name, part in written
            if part and part.content
        ),
        usage=tuple(account_rows(record.accounts, record.usage, record.stages)),
    )


def _card(
    record: StepRecord | BoundaryRecord, place: StepPlace, texts: Texts | None, **own: Any
) -> Card:
    decision = record.decision
    in_flight = decision is None and (isinstance(record, StepRecord) or record.changed)
    fate: Literal["merged", "reverted", "none", "flight"] = "flight" if in_flight else "none"
    gain = ""
    if decision is not None and decision.score_after is not None:
        fate = "merged" if decision.stays else "reverted"
        gain = f"{decision.score_after - decision.score_before:+.3f}"
    return Card(
        fate=fate,
        gain=gain,
        cost=cost_text(record.usage.cost_usd),
        gate=tuple(fact for fact in gate_facts(record) if fact.names is None),
        gain_drawn=draw_gain(decision),
        commit=place.verdict,
        fixed=() if decision is None else decision.fixed,
        broken=() if decision is None else decision.broken,
        diff=() if texts is None else diff_rows(*texts),
        **own,
    )


def draw_gain(decision: Decision | None) -> Gain | None:
    """The drawing of the difference; None where no uncertainty is recorded."""
    gate = None if decision is None else decision.gate
    if gate is None or gate.standard_error is None or not gate.compared:
        return None
    spread = _NORMAL_95 * gate.standard_error
    low, high = gate.difference - spread, gate.difference + spread
    edge = max(abs(low), abs(high), 0.05)
    scale = (_HALF - 6) / edge
    middle, left, right = (
        round(_HALF + value * scale, 1) for value in (gate.difference, low, high)
    )
    return Gain(middle, left, right, f"{edge:.2f}")


def race_table(proposal: ProposalRecord) -> RaceTable | None:
    """The race of a proposal; None where there was none."""
    race = proposal.race
    if race is None:
        return None

    def mean(arm: ArmRecord) -> float:
        return fmean(arm.scores.values()) if arm.scores else -1.0

    heats = [
        (
            tuple(
                Arm(
                    tuple(number in arm.edits for number in range(len(race.effects))),
                    score(mean(arm) if arm.scores else None),
                    plural(len(arm.scores), "task"),
                )
                for arm in sorted(heat.arms, key=mean, reverse=True)
            ),
            heat.errors,
        )
        for heat in race.heats
    ]
    effects = ((effect_text(one.mean, one.sd, one.helpful), one.kept) for one in race.effects)
    return RaceTable(race_text(proposal), tuple(effects), tuple(heats))


def _edit(edit: EditRecord, proposal: ProposalRecord, known: tuple[EditEffect, ...]) -> EditCard:
    return EditCard(
        op=edit.op.replace("_", " "),
        text=edit.content,
        target=edit.target,
        fate=edit_fate(edit),
        why=", ".join(filter(None, (edit_evidence(edit), follows(edit, proposal)))),
        applied=edit.applied,
        effect="".join(effect_text(one.mean, one.sd, one.helpful) for one in known),
    )


def _wishes(record: StepRecord) -> Iterator[str]:
    """What reviewers asked for, and what became of it."""
    for one in note_outcomes(record):
        note = one.note
        line = f":{note.line}" if note.line is not None else ""
        place = f" on {note.path}{line}" if note.path else ""
        edits = f"{plural(note.proposed, 'edit')} proposed for it, {note.taken} taken"
        yield f"{note.author or 'somebody'}{place}: “{note.text}” – {one.fate}, {edits}"

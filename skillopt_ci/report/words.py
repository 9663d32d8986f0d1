"""Usage by role and stage, as rows of a table."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import comb

from skillopt_ci.ledger.records import (
    AccountRecord,
    Decision,
    EditRecord,
    GateRecord,
    Measurement,
    ProposalRecord,
    RaceRecord,
    ReviewerNoteRecord,
    StepRecord,
    SuggestionRecord,
    UsageRecord,
    accounts_of,
)
from skillopt_ci.model.types import Usage, by_role, by_stage, total
from skillopt_ci.report.text import usage_text
from skillopt_ci.rollout.metrics import PairedDifference
from skillopt_ci.sanitize import one_line
from skillopt_ci.text import cost_text, plural, score, score_text


def account_rows(
    accounts: Iterable[AccountRecord], whole: UsageRecord
) -> Iterator[tuple[str, str]]:
    """A row for each role, and below it one for each of its stages.

    What of ``whole`` no account has is from before accounts were kept, and is told as such.
    """
    known = accounts_of(accounts)
    for role, usage in by_role(known).items():
        stages = {one.stage: used for one, used in known.items() if one.role == role}
        yield f"  {role}", detailed(usage)
        if list(stages) != [role]:
            yield from ((f"    {stage}", detailed(used)) for stage, used in sorted(stages.items()))
    missing = whole.usage().calls - total(known.values()).calls
    if known and missing > 0:
        yield "  earlier", f"{plural(missing, 'call')} before roles were told apart"


def stage_rows(
    accounts: Iterable[AccountRecord], whole: UsageRecord, stages: dict[str, UsageRecord]
) -> Iterator[tuple[str, str]]:
    """:func:`account_rows`, or what an earlier version recorded: the ``stages`` alone."""
    rows = tuple(account_rows(accounts, whole))
    yield from rows or ((f"  {stage}", detailed(used.usage())) for stage, used in stages.items())


def stage_gist(accounts: Iterable[AccountRecord]) -> str:
    """What each stage used, in a line; empty without accounts. A cost that is none is left out."""
    stages = by_stage(accounts_of(accounts)).items()
    return " · ".join(f"{stage} {_gist(used)}" for stage, used in stages)


def _gist(usage: Usage) -> str:
    cost = f", {cost_text(usage.cost_usd)}" if usage.cost_usd else ""
    return f"{plural(usage.calls, 'call')}, {plural(usage.tokens, 'token')}{cost}"


def account_json(accounts: Iterable[AccountRecord]) -> list[dict[str, object]]:
    """The accounts as flat objects."""
    return [{"role": one.role, "stage": one.stage, **one.usage.model_dump()} for one in accounts]


def detailed(usage: Usage) -> str:
    """Calls, tokens, what of them was cached or thought, and cost."""
    parts = {
        "cached": usage.cached_tokens,
        "written to the cache": usage.cache_write_tokens,
        "of reasoning": usage.reasoning_tokens,
    }
    told = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{usage_text(usage)}{f' ({told})' if told else ''}"


# The gate's arithmetic in words: what was compared, how sure that is, what it took.

_ENDS = {
    "certain": "no outcome of the rest could have changed the verdict",
    "futile": "a gain was unlikely to be shown",
    "convinced": "the gain was sure enough",
}


def after_text(decision: Decision) -> str:
    """The candidate's score: with its interval, or called an estimate where it is one."""
    measured = decision.measurement
    if measured is None:
        return "not measured"
    if measured.partial:
        return f"{score(decision.score_after)} (estimate: {tasks_text(decision)} measured)"
    return score_text(measured.score, measured.n)


def tasks_text(decision: Decision) -> str:
    """The tasks that both sides were measured on: ``40 tasks``, or ``16 of 40 tasks``."""
    measured = decision.measurement
    if measured is None or not measured.partial:
        return plural(decision.compared, "task")
    return f"{decision.compared} of {plural(measured.planned, 'task')}"


def arithmetic(decision: Decision) -> str:
    """How the verdict was reached, in sentences; empty for records that do not say."""
    gate = decision.gate
    return "" if gate is None else " ".join(_sentences(gate))


def _sentences(gate: GateRecord) -> Iterator[str]:
    error = "" if gate.standard_error is None else f" ± {gate.standard_error:.3f}"
    over = f"{gate.compared} of {plural(gate.planned, 'task')}"
    yield f"Policy {policy_text(gate)}: {gate.difference:+.3f}{error} (standard error) over {over}."
    if gate.p_value is not None and gate.alpha is not None:
        beyond = f" beyond {gate.margin:g}" if gate.margin else ""
        yield f"Chance alone does so with p = {gate.p_value:.3f}{beyond}; {gate.alpha:.3g} is sure."
    yield from _effort(gate)
    if gate.losses:
        lost = ", ".join(f"{one_line(kind, 40)} -{loss:.3f}" for kind, loss in gate.losses.items())
        yield f"Types of task that lost too much: {lost}."


def policy_text(gate: GateRecord) -> str:
    """The gate's policy, with its confidence where it has one."""
    if gate.confidence is None:
        return gate.policy
    return f"{gate.policy} at {gate.confidence:.0%} confidence"


def gate_end(gate: GateRecord) -> str:
    """Why measuring ended before all was measured; empty if it did not."""
    return _ENDS.get(gate.end, "")


def _effort(gate: GateRecord) -> Iterator[str]:
    if not gate.candidate_attempts:
        yield "No attempt was needed."
    else:
        fresh = ""
        if gate.current_attempts:
            fresh = f" and {gate.current_attempts} under the current skill"
        saved = f", {gate.saved} saved: {gate_end(gate)}" if gate.saved else ""
        yield f"It took {plural(gate.candidate_attempts, 'attempt')}{fresh}{saved}."
    if gate.baseline_attempts:
        yield (
            f"{plural(gate.baseline_attempts, 'further attempt')} measured the accepted skill, "
            "for later comparisons."
        )


def race_text(proposal: ProposalRecord) -> str:
    """What became of the edits in their race; empty where there was none."""
    return "" if proposal.race is None else _race(proposal.race)


def _race(race: RaceRecord) -> str:
    arms = sum(len(heat.arms) for heat in race.heats)
    kept = sum(effect.kept for effect in race.effects)
    edits = plural(len(race.effects), "edit")
    if not arms:
        return f"{kept} of {edits} kept by what earlier steps had measured."
    effort = f"{plural(arms, 'subset')} in {plural(len(race.heats), 'heat')}"
    return f"{kept} of {edits} kept, raced as {effort} ({plural(race.attempts, 'attempt')})."


# Under which version of the skill a step's training tasks were attempted, in words.

_EARLIER = "one version earlier"


def attempted(proposal: ProposalRecord) -> str:
    """When the attempts were made: with `train.staleness`, before the change before this one."""
    return _EARLIER if proposal.skill_attempted else "before the change"


def training_score(proposal: ProposalRecord) -> str:
    """What the attempts came to, and when they were made if that was not just before."""
    rollout = proposal.rollout
    when = f", {_EARLIER}" if proposal.skill_attempted else ""
    return score_text(rollout.hard, rollout.n) + when


# Whether one skill is better than another on the same tasks, and how sure one can be of it.


class Finding(StrEnum):
    """What a comparison found."""

    IMPROVEMENT = "improvement"
    REGRESSION = "regression"
    UNCLEAR = "no clear difference"
    INCONCLUSIVE = "inconclusive"
    """It could not be measured: neither good nor bad news."""


def judge(
    difference: PairedDifference, *, confidence: float = 0.95, threshold: float = 0.0
) -> Finding:
    """The finding on second minus first.

    It is clear if chance alone would split the changed tasks as unevenly in fewer than
    1 − ``confidence`` of all cases (exact sign test, sound for few tasks), and if the mean changed
    by ``threshold`` at least.
    """
    if not difference.n:
        return Finding.INCONCLUSIVE
    fixed, broken = len(difference.fixed), len(difference.broken)
    sure = chance(fixed, broken) <= 1 - confidence + 1e-12
    if not sure or abs(difference.mean) < threshold:
        return Finding.UNCLEAR
    if difference.mean > 0 and fixed > broken:
        return Finding.IMPROVEMENT
    if difference.mean < 0 and broken > fixed:
        return Finding.REGRESSION
    return Finding.UNCLEAR


def chance(fixed: int, broken: int) -> float:
    """The probability of a split at least as uneven if better and worse were equally likely."""
    n = fixed + broken
    tail = sum(comb(n, k) for k in range(min(fixed, broken) + 1))
    return min(1.0, 2.0 * tail / float(2**n))


# The reminders of a step, and what the guard refused of it, in words.


def notes_gist(proposal: ProposalRecord) -> str:
    """What a step reminds of, in a few words of the model's own; empty if of nothing new."""
    notes = proposal.notes
    if notes is None or not notes.added:
        return ""
    noun = "note" if len(notes.added) == 1 else "notes"
    return f"{noun} " + "; ".join(f"“{one_line(note, 60).rstrip(' .')}”" for note in notes.added)


def reminders(proposal: ProposalRecord) -> Iterator[str]:
    """One line per new reminder, and one if the list was condensed."""
    notes = proposal.notes
    if notes is None:
        return
    yield from (f"remind of “{one_line(note, 200)}”" for note in notes.added)
    if notes.consolidated_from:
        yield f"condense {notes.consolidated_from} reminders to {len(notes.appendix)}"


def refusals(proposal: ProposalRecord) -> str:
    """What the guard kept out, with its reasons, as a list; empty if it refused nothing."""
    lines = "\n".join(f"- {line}" for line in refusal_lines(proposal))
    return f"Refused by the guard:\n\n{lines}" if lines else ""


def refusal_lines(proposal: ProposalRecord) -> Iterator[str]:
    """One line per refusal; the refused text is in the record, and is not repeated."""
    yield from (f"a proposal: {one_line(reason, 200)}" for reason in proposal.screened)
    for number, edit in enumerate(proposal.edits, start=1):
        if edit.reason:
            yield f"edit {number}: {one_line(edit.reason, 200)}"
    if proposal.refused:
        yield f"the new document: {one_line(proposal.refused, 200)}"
    if proposal.notes is not None:
        yield from (f"a note: {one_line(one.reason, 200)}" for one in proposal.notes.refused)


def notes_verdict(proposal: ProposalRecord, decision: Decision) -> str:
    """What became of notes whose edits were rejected; empty where there is nothing to tell."""
    alone, notes = decision.notes, proposal.notes
    if alone is None or notes is None:
        return ""
    count = plural(len(notes.added), "reminder")
    fate = "The next commit keeps" if alone.stays else "Dropped were also"
    return f"{fate} {count}, measured alone ({score(alone.score_after)}): {alone.reason}."


# What has to be said beside a score: what was not measured, and the number that counts it.

_MOST_REASONS = 5


def reservations(measurement: Measurement | None) -> tuple[str, ...]:
    """Sentences, none where everything was measured, nothing cut off and all confined."""
    if measurement is None:
        return ()
    return tuple(
        filter(None, (_pessimistic(measurement), _cut_off(measurement), _caveat(measurement)))
    )


def with_pessimistic(text: str, measurement: Measurement) -> str:
    """A score's ``text``, followed by the pessimistic number where it is another one."""
    if measurement.pessimistic_hard is None:
        return text
    return f"{text}, {score(measurement.pessimistic_hard)} if errors count as failed"


def error_rows(measurement: Measurement) -> tuple[tuple[str, str], ...]:
    """Why attempts were not measured, and how many each time: the commonest first."""
    rows = [(one_line(why, 200), f"{count:,}") for why, count in measurement.unmeasured.items()]
    return tuple(rows)


def _pessimistic(measurement: Measurement) -> str:
    if measurement.pessimistic_hard is None:
        return ""
    lost = sum(measurement.unmeasured.values())
    reasons = [
        f"{count} × {one_line(why, 120)}"
        for why, count in [*measurement.unmeasured.items()][:_MOST_REASONS]
    ]
    rest = len(measurement.unmeasured) - len(reasons)
    more = f"; and {plural(rest, 'further reason')}" if rest > 0 else ""
    return (
        f"{plural(lost, 'attempt')} could not be measured. Counted as failed, the mean would be "
        f"{score(measurement.pessimistic_hard)} solved and {score(measurement.pessimistic_soft)} "
        f"with partial credit. Why: {'; '.join(reasons)}{more}."
    )


def _cut_off(measurement: Measurement) -> str:
    if not measurement.limits:
        return ""
    parts = ", ".join(f"{count} by {limit}" for limit, count in measurement.limits.items())
    count = plural(sum(measurement.limits.values()), "attempt")
    return f"{count} ended at a limit and were graded as they were: {parts}."


def _caveat(measurement: Measurement) -> str:
    return one_line(measurement.caveat, 300)


# What became of the document in the modes that write it anew, in the optimizer's own words.


def rewriting(proposal: ProposalRecord) -> tuple[str, ...]:
    """Each change of a rewritten document in a few words; none where it stayed as it was."""
    if not proposal.body_changed:
        return ()
    told = proposal.change_summary or tuple(map(_name, proposal.suggestions))
    words = tuple(filter(None, (_words(text, 80) for text in told)))
    return words or ("the document, written anew",)


def suggestion_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    """The suggestions that the optimizer was given, label and value."""
    for number, one in enumerate(proposal.suggestions, start=1):
        kind = one_line(one.type, 20) or "change"
        name, instruction = _words(_name(one), 80), _words(one.instruction, 200)
        yield f"suggestion {number}", f"{kind}, {name}: {instruction}"


def _words(text: str, limit: int) -> str:
    return one_line(text.lstrip("#-*> \n"), limit).rstrip(" .")


def _name(suggestion: SuggestionRecord) -> str:
    return suggestion.title or suggestion.instruction


# What became of reviewers' notes: in a step's record, and in words.

_MOST_FOLLOWED = 5


class Fate(StrEnum):
    """What became of a note."""

    MERGED = "merged"
    REVERTED = "reverted"
    IN_FLIGHT = "in flight"
    """A candidate follows it that is not judged yet."""
    NOT_CARRIED_OUT = "not carried out"
    """An edit was proposed, and refused, not selected, or found no place."""
    NOT_TAKEN_UP = "not taken up"


@dataclass(frozen=True, slots=True)
class NoteOutcome:
    """A note with its fate, and the edits of the step's selection that follow it.

    The scores are those that the candidate was judged by; None if it was not.
    """

    note: ReviewerNoteRecord
    fate: Fate
    edits: tuple[EditRecord, ...] = ()
    score_before: float | None = None
    score_after: float | None = None


def note_outcomes(record: StepRecord) -> tuple[NoteOutcome, ...]:
    """What became of each note that the step was given."""
    return tuple(_outcome(record, note) for note in record.proposal.reviewer_notes)


def guidance_lines(record: StepRecord) -> tuple[str, ...]:
    """A line for each note of the step, for its commit: who said what, and what became of it."""
    return tuple(
        f"{one_line(one.note.author, 60)} ({one.note.id}): “{one_line(one.note.text, 200)}” "
        f"({one.fate})"
        for one in note_outcomes(record)
    )


def follows(edit: EditRecord, proposal: ProposalRecord) -> str:
    """Whose notes an edit follows, in plain words of one line; empty if nobody's."""
    authors = {note.id: one_line(note.author, 60) for note in proposal.reviewer_notes}
    told = [
        f"{authors.get(name) or 'somebody'} ({one_line(name, 100)})"
        for name in edit.note_ids[:_MOST_FOLLOWED]
    ]
    more = len(edit.note_ids) - len(told)
    if more:
        told.append(f"{more} more")
    return f"follows {', '.join(told)}" if told else ""


def _outcome(record: StepRecord, note: ReviewerNoteRecord) -> NoteOutcome:
    edits = tuple(edit for edit in record.proposal.edits if note.id in edit.note_ids)
    decision = record.decision
    if not note.taken or not record.proposal.changed:
        asked = note.proposed or note.taken
        return NoteOutcome(note, Fate.NOT_CARRIED_OUT if asked else Fate.NOT_TAKEN_UP, edits)
    if decision is None:
        return NoteOutcome(note, Fate.IN_FLIGHT, edits)
    fate = Fate.MERGED if decision.stays else Fate.REVERTED
    return NoteOutcome(note, fate, edits, decision.score_before, decision.score_after)

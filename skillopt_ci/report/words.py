"""Phrases for records. :func:`~skillopt_ci.sanitize.one_line` makes a model's text inert."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from skillopt_ci.ledger.evidence import (
    EditRecord,
    Measurement,
    PatternRecord,
    ProposalRecord,
    ReviewerNoteRecord,
)
from skillopt_ci.ledger.records import BoundaryRecord, Decision, HistoryEntry, StepRecord
from skillopt_ci.ledger.summary import DifferenceRecord
from skillopt_ci.model.types import Accounts, Usage, by_role
from skillopt_ci.report.effects import Effect
from skillopt_ci.rollout.metrics import PairedDifference
from skillopt_ci.sanitize import MARKERS, one_line
from skillopt_ci.text import (
    cost_text,
    difference_text,
    percent,
    plural,
    rounded,
    score,
    score_text,
    signed,
)
from skillopt_ci.util import grouped

#: 95 % of a normal distribution lie within this many standard deviations.
_NORMAL_95 = 1.959964
_MOST_REASONS = 5
#: A line that begins or ends a block of code, or is below a table's heading: no words of a rule.
_FENCE = re.compile(r"^[ \t>*+-]*(?:`{3,}[^`\n]*|~{3,}.*|[:|][ \t:|-]+)$", re.MULTILINE)
_ENDS = {
    "certain": "the rest could not have changed the verdict",
    "futile": "a gain was unlikely to be shown",
}

_EVENTS = {
    "start": "First measurement",
    "step": "Step {0.step}",
    "notes": "Reminders of step {0.step}",
    "measure": "Measured again",
    "set_aside": "Candidate set aside",
    "slow_update": "End of epoch {0.epoch}",
    "confirm": "Confirmation after step {0.step}",
    "revert": "Taken back",
    "finish": "End of the run",
}


def event_name(entry: HistoryEntry) -> str:
    return _EVENTS[entry.kind].format(entry)


def usage_text(usage: Usage) -> str:
    about = "about " if usage.estimated else ""
    calls, tokens = plural(usage.calls, "call"), plural(usage.tokens, "token")
    cost = (about if usage.cost_usd else "") + cost_text(usage.cost_usd)
    return f"{calls}, {about}{tokens}, cost {cost}"


def detailed(usage: Usage) -> str:
    parts = {
        "cached": usage.cached_tokens,
        "written to the cache": usage.cache_write_tokens,
        "of reasoning": usage.reasoning_tokens,
    }
    told = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{usage_text(usage)}{f' ({told})' if told else ''}"


def account_rows(accounts: Accounts) -> Iterator[tuple[str, str]]:
    for role, usage in by_role(accounts).items():
        own = {one.stage: used for one, used in accounts.items() if one.role == role}
        yield f"  {role}", detailed(usage)
        if list(own) != [role]:
            yield from ((f"    {stage}", detailed(used)) for stage, used in sorted(own.items()))


def arrow(decision: Decision) -> str:
    after = score(decision.score_after, estimated=decision.partial)
    return f"{score(decision.score_before)} → {after}"


def after_step(number: int) -> str:
    return f"after step {number}" if number else "before the first step"


def tasks_text(decision: Decision) -> str:
    """The number of tasks measured on both sides: ``40 tasks``, or ``16 of 40 tasks``."""
    measured = decision.measurement
    if measured is None or not measured.partial:
        return plural(decision.compared, "task")
    return f"{decision.compared:,} of {plural(measured.planned, 'task')}"


def training_score(proposal: ProposalRecord) -> str:
    """The score on training tasks; says so if it belongs to an earlier version of the skill."""
    told = score_text(proposal.rollout.hard, proposal.rollout.measured)
    return f"{told}, one version earlier" if proposal.skill_attempted else told


def arithmetic(decision: Decision) -> str:
    """How the verdict was reached, in sentences; empty for records without this."""
    if (gate := decision.gate) is None:
        return ""
    difference = difference_text(gate.difference, gate.standard_error, gate.compared)
    over = f"{gate.compared:,} of {plural(gate.planned, 'task')}"
    if decision.partial and decision.score_after is not None:
        # what headlines show: without it, the step would have two different gains
        gain = signed(decision.score_after - decision.score_before)
        over += f", so {gain} overall if the rest score as before"
    told = [f"Difference: {difference} on {over}."]
    each = 1 if decision.measurement is None else decision.measurement.attempts_each
    if gate.candidate_attempts:
        saved = f", {gate.saved * each} saved: {_ENDS.get(gate.end, '')}" if gate.saved else ""
        told.append(f"It took {plural(gate.candidate_attempts * each, 'attempt')}{saved}.")
    else:
        told.append("No attempt was needed.")
    if gate.losses:
        lost = ", ".join(f"{one_line(kind, 40)} {signed(-by)}" for kind, by in gate.losses.items())
        told.append(f"Types of task that lost too much: {lost}.")
    return " ".join(told)


def gain_text(gain: DifferenceRecord | PairedDifference) -> str:
    return difference_text(gain.mean, gain.standard_error, gain.clusters or gain.n)


def reservations(measurement: Measurement | None) -> Iterator[str]:
    """Caveats of a score: attempts not measured, ended at a limit or not confined."""
    if measurement is None:
        return
    if measurement.pessimistic_hard is not None:
        reasons = [f"{n} × {one_line(why, 120)}" for why, n in measurement.unmeasured.items()]
        rest = len(reasons) - _MOST_REASONS
        more = f"; and {plural(rest, 'further reason')}" if rest > 0 else ""
        yield (
            f"{plural(sum(measurement.unmeasured.values()), 'attempt')} could not be measured. "
            f"Counted as failed, the mean would be {score(measurement.pessimistic_hard)} solved "
            f"and {score(measurement.pessimistic_soft)} with partial credit. "
            f"Why: {'; '.join(reasons[:_MOST_REASONS])}{more}.".replace("….", "…")
        )
    if limits := measurement.limits:
        parts = ", ".join(f"{count} by {limit}" for limit, count in limits.items())
        of = f"Of the attempts at {plural(len(measurement.asked), 'task')}, {sum(limits.values())}"
        yield f"{of} ended at a limit; what there was by then is graded: {parts}."
    if caveat := one_line(measurement.caveat, 300):
        yield caveat


def with_pessimistic(text: str, measurement: Measurement) -> str:
    """A score's ``text`` in any metric, then the share solved in the worst case if it differs."""
    if measurement.pessimistic_hard is None:
        return text
    return f"{text}, {score(measurement.pessimistic_hard)} solved if errors count as failed"


def quoted(text: str, limit: int) -> str:
    """A text on one line, without first markers, a final full stop and, if more is left, fences."""
    return one_line(MARKERS.sub(r"\1", _FENCE.sub("", text).strip() or text), limit).rstrip(" .")


def gist(edit: EditRecord, limit: int = 60) -> str:
    if edit.op == "delete":
        return f"drop “{quoted(edit.target, limit)}”"
    return quoted(edit.content, limit) or "empty text"


def edit_text(edit: EditRecord) -> str:
    content, target = quoted(edit.content, 200), quoted(edit.target, 100)
    words = {
        "append": f"add “{content}”",
        "insert_after": f"after “{target}” add “{content}”",
        "replace": f"replace “{target}” by “{content}”",
        "delete": f"drop “{target}”",
    }
    what = words.get(edit.op) or f"unknown operation “{one_line(edit.op, 40)}”"
    return f"{what} ({edit_evidence(edit)})"


def edit_evidence(edit: EditRecord) -> str:
    """How many attempts support an edit, or that attribution proposed to remove the rule."""
    if edit.source_type == "attribution":
        return "did harm, by all that was measured"
    kind = "failed" if edit.source_type == "failure" else "successful"
    return f"seen in {plural(edit.support_count, f'{kind} attempt')}"


def edit_fate(edit: EditRecord) -> str:
    if edit.reason:
        return f"refused because {edit.reason}"
    why = edit.status.removeprefix("skipped_").replace("_", " ")
    return "applied" if edit.applied else f"not applied ({why})"


def headline(proposal: ProposalRecord) -> str:
    return "; ".join(rules(proposal)) or "no change"


def rules(proposal: ProposalRecord, limit: int = 60) -> tuple[str, ...]:
    """Each change of a step in the model's own words, for people to read as rules."""
    edits = (gist(edit, limit) for edit in proposal.applied_edits)
    found = edits if proposal.mode == "patch" else rewriting(proposal)
    return tuple(filter(None, (*found, notes_gist(proposal, limit))))


def rewriting(proposal: ProposalRecord) -> tuple[str, ...]:
    """Each change of a rewritten document in a few words; empty if its body is unchanged."""
    if not proposal.body_changed:
        return ()
    told = proposal.change_summary or [one.title or one.instruction for one in proposal.suggestions]
    return tuple(filter(None, (quoted(text, 80) for text in told))) or ("the document, rewritten",)


def suggestion_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    for number, one in enumerate(proposal.suggestions, start=1):
        kind, name = one_line(one.type, 20) or "change", quoted(one.title or one.instruction, 80)
        yield f"suggestion {number}", f"{kind}, {name}: {quoted(one.instruction, 200)}"


def effect_text(effect: Effect) -> str:
    """An edit's effect on the mean score: ``+0.042 ± 0.061 (95 %), 91% likely to help``."""
    spread = rounded(_NORMAL_95 * effect.sd)
    helpful = percent(min(max(effect.helpful, 1e-9), 1 - 1e-9))  # nothing is measured for sure
    return f"{signed(effect.mean)} ± {spread} (95 %), {helpful} likely to help"


def notes_gist(proposal: ProposalRecord, limit: int = 60) -> str:
    """A step's new reminders, in a few of the model's own words; empty if there are none."""
    if (notes := proposal.notes) is None or not notes.added:
        return ""
    noun = "note" if len(notes.added) == 1 else "notes"
    return f"{noun} " + "; ".join(f"“{quoted(note, limit)}”" for note in notes.added)


def reminders(proposal: ProposalRecord) -> Iterator[str]:
    if (notes := proposal.notes) is None:
        return
    yield from (f"remind of “{one_line(note, 200)}”" for note in notes.added)
    if notes.consolidated_from:
        yield f"condense {notes.consolidated_from} reminders to {len(notes.appendix)}"


def notes_verdict(proposal: ProposalRecord, decision: Decision) -> str:
    """The fate of reminders that were measured alone; empty if there were none."""
    alone, notes = decision.notes, proposal.notes
    if alone is None or notes is None:
        return ""
    count = plural(len(notes.added), "reminder")
    fate = "The next commit keeps" if alone.stays else "Dropped were also"
    return f"{fate} {count}, measured alone ({score(alone.score_after)}): {alone.reason}."


def refusal_lines(proposal: ProposalRecord, *, edits: bool = True) -> Iterator[str]:
    """One line per refusal of the guard, without the refused text, which is in the record."""
    yield from (f"a proposal: {one_line(reason, 200)}" for reason in proposal.screened)
    reasons = enumerate((edit.reason for edit in proposal.edits), start=1) if edits else ()
    yield from (f"edit {number}: {one_line(reason, 200)}" for number, reason in reasons if reason)
    if proposal.refused:
        yield f"the new document: {one_line(proposal.refused, 200)}"
    if proposal.notes is not None:
        yield from (f"a note: {one_line(one.reason, 200)}" for one in proposal.notes.refused)


def unusable_lines(proposal: ProposalRecord) -> Iterator[str]:
    """One line per question without a usable reply: the reason, and the last reply's beginning."""
    for one in () if proposal.unusable is None else proposal.unusable.replies:
        began = f" It began: {one_line(one.beginning, 100)}" if one.beginning else ""
        # what follows was said to the model
        yield one_line(one.reason.partition(" Reply with ")[0], 200) + began


class Fate(StrEnum):
    MERGED = "merged"
    REVERTED = "reverted"
    #: A candidate that follows it has no verdict yet.
    IN_FLIGHT = "in flight"
    #: An edit was proposed for it, but refused, not selected or not applicable.
    NOT_CARRIED_OUT = "not carried out"
    NOT_TAKEN_UP = "not taken up"


@dataclass(frozen=True, slots=True)
class NoteOutcome:
    note: ReviewerNoteRecord
    fate: Fate
    edits: tuple[EditRecord, ...] = ()


def note_outcomes(record: StepRecord) -> Iterator[NoteOutcome]:
    proposal, decision = record.proposal, record.decision
    for note in proposal.reviewer_notes:
        if not note.taken or not proposal.changed:
            fate = Fate.NOT_CARRIED_OUT if note.proposed or note.taken else Fate.NOT_TAKEN_UP
        elif decision is None:
            fate = Fate.IN_FLIGHT
        else:
            fate = Fate.MERGED if decision.stays else Fate.REVERTED
        edits = tuple(edit for edit in proposal.edits if note.id in edit.note_ids)
        yield NoteOutcome(note, fate, edits)


def failures(patterns: Sequence[PatternRecord]) -> list[PatternRecord]:
    found = [
        PatternRecord(
            description=description,
            count=sum(one.count for one in same),
            task_ids=tuple(dict.fromkeys(task for one in same for task in one.task_ids)),
        )
        for description, same in grouped((one.description, one) for one in patterns).items()
    ]
    return sorted(found, key=lambda one: -one.count)


#: What became of a training task under the newer of two skills, changes first.
CATEGORIES = {
    "regressed": "broken",
    "improved": "fixed",
    "persistent_fail": "still failed",
    "stable_success": "still solved",
}


def categories(record: BoundaryRecord) -> str:
    counts = Counter(CATEGORIES.get(pair.category, pair.category) for pair in record.pairs)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())

"""What a run has learned: the rules that were merged and are still in the skill."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.evidence import EditRecord, ProposalRecord
from skillopt_ci.ledger.records import Decision, HistoryEntry, StepRecord
from skillopt_ci.report import words as say
from skillopt_ci.report.view import EventView, RunView
from skillopt_ci.sanitize import visible
from skillopt_ci.text import collapsed, difference_text, plural, within_noise

#: Most characters shown of a rule.
_RULE = 200


@dataclass(frozen=True, slots=True)
class Lesson:
    """Rules that were merged together and stay; the first ones are those of ``edits``."""

    name: str
    rules: Sequence[str]
    edits: Sequence[EditRecord]
    entry: HistoryEntry
    view: EventView
    decision: Decision | None

    @property
    def gain(self) -> float:
        return (self.entry.score_after or 0.0) - (self.entry.score_before or 0.0)

    @property
    def text(self) -> str:
        """``**+0.225 ± 0.135 (95 %)** on 40 tasks``, and whether that is within noise."""
        gate, tasks = self.decision and self.decision.gate, self.entry.tasks
        error = gate.standard_error if gate else None
        noise = ", within noise" if within_noise(self.gain, error, tasks) else ""
        return f"**{difference_text(self.gain, error, tasks)}** on {plural(tasks, 'task')}{noise}"


def lessons(run: RunView) -> list[Lesson]:
    """What the branch has learned beyond base, largest gain first."""
    found, events = list[Lesson](), run.history[run.base_events :]
    taken = {(entry.step, entry.edit) for entry in events if entry.kind == "revert"}
    later = set[str]()  # a person removed a rule, and a later step learned it again
    for entry in events[::-1]:
        notes = entry.kind == "notes"
        view = run.told(entry.model_copy(update={"kind": "step"}) if notes else entry)
        if view is None or not entry.stays or (not notes and (entry.step, 0) in taken):
            continue
        record, told, edits = view.record, list[str](), list[EditRecord]()
        name, decision = view.name.lower(), record.decision
        if isinstance(record, StepRecord) and notes:
            told = [say.notes_gist(record.proposal, _RULE)]
            decision = decision and decision.notes
        elif isinstance(record, StepRecord):
            proposal = record.proposal
            gone = reverted = {edit - 1 for step, edit in taken if step == entry.step}
            if proposal.mode == "patch":
                gone = reverted | set(_replaced(proposal, run.skill, later))
                edits = [one for n, one in enumerate(proposal.applied_edits) if n not in gone]
                later.update(collapsed(edit.content) for edit in edits)
            told = [rule for n, rule in enumerate(say.rules(proposal, _RULE)) if n not in gone]
            name += ", a rule of it taken back" if reverted else ""
        elif record.slow_update and record.slow_update.content:
            told = [say.quoted(line, _RULE) for line in record.slow_update.content.splitlines()]
        if told := [words for words in told if visible(words).strip()]:
            found.insert(0, Lesson(name, told, edits, entry, view, decision))
    return sorted(found, key=lambda one: -one.gain)


def _replaced(proposal: ProposalRecord, skill: str, later: Collection[str]) -> Iterator[int]:
    """Which applied edits, from 0, people or ``later`` steps have undone or made anew."""
    text = collapsed(skill)
    for number, edit in enumerate(proposal.applied_edits):
        if edit.op == "delete" or not skill:
            continue
        lines = [collapsed(line) for line in edit.content.splitlines() if line.strip()]
        if collapsed(edit.content) in later or not any(line in text for line in lines):
            yield number

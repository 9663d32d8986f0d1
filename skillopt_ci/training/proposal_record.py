"""The record of how a candidate came about, from what the stages returned."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt_ci.ledger.records import (
    EditRecord,
    LearningRateRecord,
    NotesRecord,
    PatternRecord,
    ProposalRecord,
    RaceRecord,
    RolloutRecord,
    SuggestionRecord,
    TaskOutcome,
    UsageRecord,
)
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.edits import EditReport
from skillopt_ci.training.accumulate import WorkedBatch, batch_record
from skillopt_ci.training.guard import GuardContext
from skillopt_ci.training.guard_secrets import without_secrets
from skillopt_ci.training.modes.mode import Updated, UpdateMode
from skillopt_ci.training.patch import Patch, Reflection, Suggestion
from skillopt_ci.training.reviewer_notes import ReviewerNote, note_records
from skillopt_ci.training.select import Selected


@dataclass(frozen=True, slots=True)
class Choice:
    """What was left after merging, how much of it was allowed (and by whom), what was taken."""

    merged: Patch[Any]
    limit: int | None
    learning_rate: LearningRateRecord | None
    selected: Selected[Any]
    race: RaceRecord | None = None

    @property
    def kept(self) -> tuple[int, ...] | None:
        """The numbers (from 0) of the edits that go into the candidate; None means all."""
        if self.race is None:
            return None
        return tuple(n for n, effect in enumerate(self.race.effects) if effect.kept)


def proposal_record(
    worked: Sequence[WorkedBatch],
    choice: Choice,
    updated: Updated,
    notes: NotesRecord | None = None,
    heard: Sequence[ReviewerNote] = (),
    *,
    mode: UpdateMode[Any],
    before: str,
    attempted: str,
    config_sha256: str,
    usage: Mapping[str, Usage],
) -> ProposalRecord:
    """Return the evidence of a candidate that ``updated`` the text ``before``.

    The batches were ``attempted`` under that text or an older one. ``heard`` are the reviewers'
    notes that the analysts were given.
    """
    rollouts = [rollout for one in worked for rollout in one.rollouts]
    reflections = [reflection for one in worked for reflection in one.reflections]
    patch = choice.selected.patch
    return ProposalRecord(
        rollout=_rollout_record(rollouts),
        batches=tuple(map(batch_record, worked)),
        patterns=_pattern_records(reflections),
        n_failure_patches=_patches(reflections, "failure"),
        n_success_patches=_patches(reflections, "success"),
        n_edits_merged=len(choice.merged.edits),
        mode=mode.name,
        edit_budget=choice.limit,
        learning_rate=choice.learning_rate,
        selection=choice.selected.how,
        reasoning="\n\n".join(filter(None, (patch.reasoning, updated.reasoning))),
        edits=tuple(
            _edit_record(report, [note.id for note in heard]) for report in updated.reports
        ),
        suggestions=_suggestion_records(patch.edits),
        change_summary=updated.change_summary,
        notes=notes,
        reviewer_notes=note_records(heard, _proposed_for(reflections), _taken_for(choice, updated)),
        race=choice.race,
        outcome=updated.outcome,
        refused=updated.refused,
        screened=tuple(reason for one in reflections for reason in one.refused),
        diff=unified_diff(before, updated.skill),
        skill_before=sha256(before),
        skill_after=sha256(updated.skill),
        skill_attempted=sha256(attempted) if attempted != before else "",
        config_sha256=config_sha256,
        usage={stage: UsageRecord.of(one) for stage, one in usage.items()},
    )


def publishable(record: ProposalRecord, guard: GuardContext) -> ProposalRecord:
    """Return the record without secrets: what the guard refused must not enter git beside it."""
    if not guard.rules.secrets:
        return record
    return ProposalRecord.model_validate(_cleaned(record.model_dump(mode="json"), guard.keys))


def _cleaned(value: object, keys: Sequence[str]) -> object:
    match value:
        case str():
            return without_secrets(value, keys)
        case list():
            return [_cleaned(one, keys) for one in value]
        case dict():
            return {key: _cleaned(one, keys) for key, one in value.items()}
    return value


def _patches(reflections: Sequence[Reflection[Any]], source: str) -> int:
    return sum(1 for one in reflections if one.source_type == source and one.patch.edits)


def _pattern_records(reflections: Iterable[Reflection[Any]]) -> tuple[PatternRecord, ...]:
    return tuple(
        PatternRecord(
            description=": ".join(filter(None, (seen.failure_type, seen.description))),
            count=seen.count,
            task_ids=seen.task_ids,
        )
        for reflection in reflections
        for seen in reflection.failure_patterns
    )


def _rollout_record(rollouts: Sequence[Rollout]) -> RolloutRecord:
    means = mean_of(rollouts)
    return RolloutRecord(
        hard=means.hard,
        soft=means.soft,
        n=means.n,
        errors=means.errors,
        tasks=tuple(
            TaskOutcome(
                id=one.task_id,
                status=one.status,
                hard=one.hard,
                soft=one.soft,
                reason=one.reason[:300],
                task_type=one.task_type,
                attempt=one.attempt,
            )
            for one in rollouts
        ),
    )


def _proposed_for(reflections: Iterable[Reflection[Any]]) -> list[str]:
    """The reviewers' notes that proposed edits follow, once for each edit."""
    return [note for one in reflections for edit in one.patch.edits for note in edit.note_ids]


def _taken_for(choice: Choice, updated: Updated) -> list[str]:
    """The same for those edits that went into the candidate."""
    if not updated.reports:
        carried_out = updated.outcome == "updated" and not updated.refused
        edits = choice.selected.patch.edits if carried_out else ()
        return [note for edit in edits for note in edit.note_ids]
    applied = (report.edit for report in updated.reports if report.status.applied)
    return [note for edit in applied for note in edit.note_ids]


def _edit_record(report: EditReport, heard: Sequence[str]) -> EditRecord:
    edit = report.edit
    return EditRecord(
        op=edit.op,
        target=edit.target,
        content=edit.content,
        source_type=edit.source_type,
        support_count=edit.support_count,
        status=report.status.value,
        reason=report.reason,
        note_ids=tuple(note for note in heard if note in edit.note_ids),
    )


def _suggestion_records(edits: Iterable[object]) -> tuple[SuggestionRecord, ...]:
    return tuple(
        SuggestionRecord(
            type=edit.type,
            title=edit.title,
            instruction=edit.instruction,
            motivation=edit.motivation,
            priority_hint=edit.priority_hint,
            source_type=edit.source_type,
            support_count=edit.support_count,
        )
        for edit in edits
        if isinstance(edit, Suggestion)
    )

"""What came of a run, epoch by epoch and stage by stage: pure functions of its records."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillopt_ci.ledger.records import (
    BoundaryRecord,
    EpochSummary,
    HistoryEntry,
    StepRecord,
    UsageRecord,
    accounts_of,
)
from skillopt_ci.model.types import Usage, by_stage
from skillopt_ci.report.words import Moment, stays, timeline

#: Where calls are booked that no stage of a record accounts for.
_REST: Mapping[str, str] = {"finish": "test"}


def epoch_summaries(history: Sequence[HistoryEntry]) -> tuple[EpochSummary, ...]:
    """Steps by outcome and the scores at the end, for every epoch that had a step."""
    moments = tuple(timeline(history))
    epochs = sorted({one.entry.epoch for one in moments if one.entry.kind == "step"})
    return tuple(
        _epoch(epoch, [one for one in moments if one.entry.epoch == epoch]) for epoch in epochs
    )


def outcome(entry: HistoryEntry) -> str:
    """``accept``, ``reject`` or ``skip``: what became of a step."""
    if stays(entry):
        return "accept"
    return "skip" if entry.action.startswith("skip") else "reject"


def usage_by_stage(
    history: Iterable[HistoryEntry], records: Iterable[StepRecord | BoundaryRecord]
) -> dict[str, UsageRecord]:
    """The whole usage of a run, sorted by stage.

    A record knows the stages up to its candidate; the rest of it, and what was measured between
    steps, went into measuring on the selection tasks (into the test, at the end of the run).
    """
    known = {(_kind(record), _number(record)): record for record in records}
    totals: dict[str, Usage] = {}
    for entry in history:
        number = entry.step if entry.kind == "step" else entry.epoch
        for stage, used in _stages(entry, known.get((entry.kind, number))):
            totals[stage] = totals.get(stage, Usage()) + used
    return {stage: UsageRecord.of(used) for stage, used in totals.items()}


def _epoch(epoch: int, moments: Sequence[Moment]) -> EpochSummary:
    steps = Counter(outcome(one.entry) for one in moments if one.entry.kind == "step")
    return EpochSummary(
        epoch=epoch,
        steps=steps.total(),
        accepts=steps["accept"],
        rejects=steps["reject"],
        skips=steps["skip"],
        best_score=moments[-1].best_score,
        current_score=moments[-1].current_score,
    )


def _stages(
    entry: HistoryEntry, record: StepRecord | BoundaryRecord | None
) -> Iterator[tuple[str, Usage]]:
    known: Mapping[str, UsageRecord] = {}
    if isinstance(record, StepRecord):
        known = record.proposal.usage
    elif record is not None:
        known = record.stages
    booked = by_stage(accounts_of(record.accounts)) if record is not None else {}
    booked = booked or {stage: used.usage() for stage, used in known.items()}
    rest = entry.usage.usage()
    for stage, used in booked.items():
        yield stage, used
        rest = _less(rest, used)
    if rest.calls:
        yield _REST.get(entry.kind, "selection"), rest


def _less(whole: Usage, part: Usage) -> Usage:
    unknown = whole.cost_usd is None or part.cost_usd is None
    return Usage(
        calls=whole.calls - part.calls,
        prompt_tokens=whole.prompt_tokens - part.prompt_tokens,
        completion_tokens=whole.completion_tokens - part.completion_tokens,
        cached_tokens=whole.cached_tokens - part.cached_tokens,
        reasoning_tokens=whole.reasoning_tokens - part.reasoning_tokens,
        cost_usd=None if unknown else max(0.0, (whole.cost_usd or 0) - (part.cost_usd or 0)),
        estimated=whole.estimated,
        cache_write_tokens=whole.cache_write_tokens - part.cache_write_tokens,
    )


def _kind(record: StepRecord | BoundaryRecord) -> str:
    return "step" if isinstance(record, StepRecord) else "slow_update"


def _number(record: StepRecord | BoundaryRecord) -> int:
    return record.step if isinstance(record, StepRecord) else record.epoch

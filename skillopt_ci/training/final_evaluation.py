"""Finish: the end of a run. Validate the last skill, test the first, best and last, sum it all up.

The outcome is one commit with ``summary.json``. A run that goes on afterwards (more epochs, a
reviewer's commit) can be finished again; what was measured before is not measured again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from skillopt_ci.aio import map_ordered
from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    DifferenceRecord,
    EpochSummary,
    FinalSkill,
    HistoryEntry,
    Measurement,
    Snapshot,
    State,
    StepRecord,
    Summary,
    TypeScore,
    booked,
    rounded,
)
from skillopt_ci.ledger.timeline import Moment, timeline
from skillopt_ci.model.types import Accounts, Usage, by_stage, total
from skillopt_ci.progress import Note, StageFinished
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.skill.document import sha256
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.fingerprint import grader_folders, measurement_fingerprint
from skillopt_ci.training.measure import measure
from skillopt_ci.training.offline_eval import by_type
from skillopt_ci.training.plan import total_steps
from skillopt_ci.training.run_context import Bench, Run
from skillopt_ci.training.state import Event, Settled, record_events
from skillopt_ci.training.trainer import prepare

# The test at the end of a run: initial, best and last skill on tasks that training never used.


def tested_under(run: Run) -> str:
    """Fingerprint of what test scores depend on besides the skill; empty if nothing is tested."""
    if not (run.test and run.config.evaluation.eval_test):
        return ""
    graders = grader_folders(run.config, run.test, run.root)
    return measurement_fingerprint(run.config, run.test, run.prompts, run.rollout_facts, graders)


def tests_known(earlier: Summary | None, under: str) -> dict[str, Measurement]:
    """The test scores of an earlier end of the run, by skill, if they still compare."""
    if earlier is None or earlier.tested_under != under:
        return {}
    return {one.sha256: one.test for one in earlier.tested if one.test is not None}


async def try_out(
    run: Run, texts: Mapping[str, str], known: Mapping[str, Measurement], bench: Bench
) -> dict[str, Measurement]:
    """Measure the named ``texts`` at once, each only once however many names it has.

    The result is by the texts' hashes and has what is ``known`` already.
    """
    missing = {sha256(text): (name, text) for name, text in reversed([*texts.items()])}

    async def one(item: tuple[str, str]) -> Measurement:
        return await measure(
            item[1],
            run.test,
            runner=bench.runner,
            evaluation=run.config.evaluation,
            observer=run.observer,
            stage=f"test {item[0]}",
        )

    todo = {key: item for key, item in missing.items() if key not in known}
    measured = await map_ordered(one, todo.values(), limit=len(texts))
    return {**known, **dict(zip(todo, measured, strict=True))}


def with_test(
    skill: FinalSkill, tests: Mapping[str, Measurement], tasks: Sequence[Task]
) -> FinalSkill:
    """``skill`` with its test score, if it has one."""
    test = tests.get(skill.sha256)
    if test is None:
        return skill
    interval = wilson(test.hard, test.n)
    types = by_type(tasks, test)
    return skill.model_copy(
        update={
            "test": test,
            "interval": (interval.low, interval.high),
            "by_type": {kind: TypeScore(hard=mean, n=n) for kind, (mean, n) in types.items()},
        }
    )


def gain(initial: FinalSkill, other: FinalSkill) -> DifferenceRecord | None:
    """How much better ``other`` did on the test than the initial skill, task by task."""
    if initial.test is None or other.test is None:
        return None
    found = paired(_hard(initial.test), _hard(other.test))
    return DifferenceRecord(
        mean=found.mean,
        standard_error=found.standard_error,
        n=found.n,
        fixed=found.fixed,
        broken=found.broken,
    )


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}


# What came of a run, epoch by epoch and stage by stage: pure functions of its records.

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
    if entry.stays:
        return "accept"
    return "skip" if entry.action.startswith("skip") else "reject"


def usage_by_stage(
    history: Iterable[HistoryEntry], records: Iterable[StepRecord | BoundaryRecord]
) -> dict[str, Usage]:
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
    return {stage: rounded(used) for stage, used in totals.items()}


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
    known: Mapping[str, Usage] = {}
    if isinstance(record, StepRecord):
        known = record.proposal.usage
    elif record is not None:
        known = record.stages
    rest = entry.usage
    for stage, used in ((record and by_stage(record.accounts)) or known).items():
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


#: Below this a difference of scores is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class FinishOutcome:
    """What the end of the run came to; ``seconds`` is what all of its commits say they took."""

    summary: Summary
    commit: str
    state: State
    seconds: float


@dataclass(frozen=True, slots=True)
class _Ending:
    """The end of a run in the making: the ground, the three texts, and what is found out.

    ``promoted``: the last skill takes the best one's place.
    """

    standing: Settled
    texts: Mapping[str, str]
    promoted: bool
    under: str
    tests: Mapping[str, Measurement]
    used: Accounts


async def finish(run: Run) -> FinishOutcome | None:
    """Do the end of the run; None if that was done and nothing has changed since.

    Raises UsageError while a candidate is in flight, and what measuring raises, with everything
    that was paid for kept.
    """
    began = run.clock()
    standing, candidate = await prepare(run)
    if candidate is not None:
        raise UsageError(
            "A candidate is in flight: its verdict is still to come.",
            hint="Let `skillopt-ci step` decide it first, then finish.",
        )
    earlier = run.folder.read_summary(partial(run.ledger.read, standing.commit))
    under = tested_under(run)
    if _is_finished(standing, earlier, under):
        return None
    ending = await _work_out(run, standing, tests_known(earlier, under))
    state, last = _state(run, ending), standing.state.current.measurement
    best = {run.folder.best_skill: ending.texts["best"]} if ending.promoted else {}
    seconds = seconds_so_far(run, standing) + run.clock() - began
    summaries = list[Summary]()

    def summed_up(entry: HistoryEntry) -> Summary:
        summaries.append(_summary(run, ending, state, entry))
        return summaries[0]

    event = Event(
        kind="finish",
        action="promote" if ending.promoted else "finish",
        reason="the last skill is the best one" if ending.promoted else "the best skill stands",
        state=state,
        skill=standing.skill,
        score_before=standing.state.best.measurement.score,
        score_after=last.score,
        tasks=last.n,
        usage=rounded(total(ending.used.values())),
        files=dict(best),
        summary=summed_up,
        seconds=seconds,
    )
    commit = record_events(run, standing, event).commit
    run.observer(StageFinished("finish", commit[:10]))
    return FinishOutcome(summaries[0], commit, state, seconds)


def seconds_so_far(run: Run, standing: Settled) -> float:
    """What the run's commits say they took, as far as this clone has them."""
    commits = run.ledger.log(standing.commit, paths=(run.folder.history,))
    return sum(float(one.trailers.get("Skillopt-Seconds", 0)) for one in commits)


def beats(last: Snapshot, best: Snapshot) -> bool:
    """Whether the last skill scored strictly higher than the best one, on the same tasks.

    Both were measured under the same conditions already: rolling the last one out again, as
    SkillOpt does, would only be a second draw of a noisy number.
    """
    same_tasks = last.measurement.tasks.keys() == best.measurement.tasks.keys()
    return same_tasks and last.measurement.score > best.measurement.score + _ROUNDING


def _is_finished(standing: Settled, earlier: Summary | None, under: str) -> bool:
    done = bool(standing.history) and standing.history[-1].kind == "finish"
    return done and earlier is not None and earlier.tested_under == under


async def _work_out(run: Run, standing: Settled, known: Mapping[str, Measurement]) -> _Ending:
    state, under = standing.state, tested_under(run)
    promoted = run.config.evaluation.eval_test and beats(state.current, state.best)
    if promoted:
        run.observer(Note("The last skill scored higher than the best one and replaces it."))
    read = partial(run.ledger.read, standing.commit)
    texts = {
        "first": read(run.folder.initial_skill) or "",
        "best": standing.skill if promoted else read(run.folder.best_skill) or "",
        "last": standing.skill,
    }
    if not under:
        return _Ending(standing, texts, promoted, under, {}, {})
    meter = run.meter(standing.spent)
    scope = f"{run.config.run}/finish@{standing.commit}"
    async with run.bench(scope, meter) as bench:
        tests = await try_out(run, texts, known, bench)
    return _Ending(standing, texts, promoted, under, tests, meter.accounts())


def _state(run: Run, ending: _Ending) -> State:
    state = ending.standing.state
    return state.model_copy(
        update={
            "best": state.current if ending.promoted else state.best,
            "usage": rounded(ending.standing.spent + total(ending.used.values())),
            "accounts": booked(state.accounts, ending.used),
            "simulated": run.simulated,
        }
    )


def _summary(run: Run, ending: _Ending, state: State, entry: HistoryEntry) -> Summary:
    history = (*ending.standing.history, entry)
    initial, best, last = (
        with_test(skill, ending.tests, run.test) for skill in _skills(ending, state)
    )
    return Summary(
        run=state.run,
        skill=state.skill,
        simulated=run.simulated,
        step=state.step,
        total_steps=total_steps(len(run.splits.train), run.config.train),
        epoch=state.epoch,
        metric=run.config.evaluation.gate_metric,
        initial=initial,
        best=best,
        last=last,
        promoted=ending.promoted,
        best_gain=gain(initial, best),
        last_gain=gain(initial, last),
        epochs=epoch_summaries(history),
        stages=usage_by_stage(history, _records(run, ending.standing)),
        usage=state.usage,
        accounts=state.accounts,
        tested_under=ending.under,
    )


def _skills(ending: _Ending, state: State) -> Iterator[FinalSkill]:
    text, first = ending.texts["first"], ending.standing.history[0]
    yield FinalSkill(sha256=sha256(text), step=0, origin="initial", score=first.score_after)
    for one in (state.best, state.current):
        score = one.measurement.score
        yield FinalSkill(sha256=one.sha256, step=one.step, origin=one.origin, score=score)


def _records(run: Run, standing: Settled) -> Iterator[StepRecord | BoundaryRecord]:
    read, folder = partial(run.ledger.read, standing.commit), run.folder
    for entry in standing.history:
        record: StepRecord | BoundaryRecord | None = None
        if entry.kind == "step":
            record = folder.read_step(read, entry.step)
        elif entry.kind == "slow_update":
            record = folder.read_boundary(read, entry.epoch)
        if record is not None:
            yield record

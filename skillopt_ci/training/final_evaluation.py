"""The end of a run: test first, best and last skill, unless tested before; commit a summary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.aio import map_ordered
from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.evidence import Measurement, as_recorded
from skillopt_ci.ledger.records import HistoryEntry, Snapshot, State
from skillopt_ci.ledger.summary import (
    DifferenceRecord,
    EpochSummary,
    FinalSkill,
    Summary,
    TypeScore,
    comparable_from,
    timeline,
)
from skillopt_ci.model.types import Account, Usage, by_stage, total
from skillopt_ci.progress import Note, StageFinished
from skillopt_ci.rollout.metrics import OTHER, paired
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import as_read
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.measure import clusters_of, measure
from skillopt_ci.training.memory import warn_of_trained
from skillopt_ci.training.plan import last_step, sizes_now
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import (
    Checkout,
    RunEvent,
    ScoredCheckout,
    charged,
    finished,
    history_entry,
    open_models,
    record_events,
)
from skillopt_ci.training.trainer import prepare, upcoming
from skillopt_ci.util import grouped


async def _test(
    run: Run, texts: Mapping[str, str], known: Mapping[str, Measurement], models: OpenModels
) -> dict[str, Measurement]:
    """The measurement of each text, by its SHA-256; ``known`` are earlier ones."""
    names = dict[str, str]()
    for name, text in texts.items():
        # an epoch's end may only make room for guidance: such texts read the same
        names.setdefault(as_read(text), name)

    async def test(name: str) -> Measurement:
        earlier = known.get(sha256(texts[name]))
        return earlier or await measure(run, models, texts[name], run.test, stage=f"test {name}")

    found = await map_ordered(test, names.values(), limit=len(texts))
    by_reading = dict(zip(names, found, strict=True))
    return {sha256(text): by_reading[as_read(text)] for text in texts.values()}


def by_type(tasks: Sequence[Task], measurement: Measurement) -> dict[str, TypeScore]:
    groups = grouped(
        (task.task_type or OTHER, measurement.tasks[task.id][0])
        for task in tasks
        if task.id in measurement.tasks
    )
    return {
        kind: TypeScore(hard=sum(hard) / len(hard), n=len(hard))
        for kind, hard in sorted(groups.items())
    }


def gain(initial: FinalSkill, other: FinalSkill, tasks: Sequence[Task]) -> DifferenceRecord | None:
    if initial.test is None or other.test is None:
        return None
    found = paired(initial.test.hard_scores, other.test.hard_scores, clusters_of(tasks))
    return DifferenceRecord.model_validate(found, from_attributes=True)


def epoch_summaries(history: Sequence[HistoryEntry]) -> Iterator[EpochSummary]:
    """For every epoch with a step, the number of steps by outcome and the scores at its end."""
    moments = [  # without what a person or a new way of measuring changed
        one for one in timeline(history) if one.entry.kind in ("step", "notes", "slow_update")
    ]
    for epoch in sorted({one.entry.epoch for one in moments if one.entry.kind == "step"}):
        own = [one for one in moments if one.entry.epoch == epoch]
        steps = [one.entry for one in own if one.entry.kind == "step"]
        accepts = sum(entry.stays for entry in steps)
        skips = sum(entry.score_after is None for entry in steps)
        yield EpochSummary(
            epoch=epoch,
            steps=len(steps),
            accepts=accepts,
            rejects=len(steps) - accepts - skips,
            skips=skips,
            best_score=own[-1].best_score,
            current_score=own[-1].current_score,
        )


#: A smaller difference of scores is a rounding error.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class FinishOutcome:
    """The result of :func:`finish`; ``seconds`` adds up the time recorded in all commits."""

    summary: Summary
    checkout: ScoredCheckout
    seconds: float


def finish_due(run: Run, checkout: ScoredCheckout) -> bool:
    """Whether nothing but the tests is left, which ``evaluation.eval_test`` asks for."""
    sizes = sizes_now(run, checkout)
    return upcoming(run.config, sizes, checkout.state, checkout.history).work == "finish"


def earlier_tests(run: Run, commit: str) -> Summary | None:
    """The summary at ``commit`` if its test scores compare with new ones."""
    found = run.ledger.at(commit).read_summary()
    return found if found is not None and found.tested_under == run.tested_under else None


async def finish(run: Run, *, early: bool = True) -> FinishOutcome | None:
    """End the run; None if it has ended already, or if work is left and it may not end ``early``.

    Raises UsageError while a candidate is in flight.
    """
    began = run.clock()
    checkout, candidate = await prepare(run, ending=True)
    if candidate is not None:
        raise UsageError(
            "A candidate is in flight, without a verdict yet.",
            hint="Let `skillopt-ci step` decide it first, then finish.",
        )
    folder, before = run.ledger.at(checkout.commit), checkout.state
    earlier = earlier_tests(run, checkout.commit)
    if (earlier and finished(checkout.history)) or not (early or finish_due(run, checkout)):
        return None
    promoted = run.config.evaluation.eval_test and beats(before.current, before.best)
    if promoted:
        run.observer(Note("The last skill scored higher than the best one and replaces it."))
    texts = {
        "first": folder.read(folder.initial_skill) or "",
        "best": checkout.skill if promoted else folder.read(folder.best_skill) or "",
        "last": checkout.skill,
    }
    tests, used, trained = dict[str, Measurement](), dict[Account, Usage](), 0
    if run.tested_under:
        trained = warn_of_trained(run, checkout, run.test, "test")
        async with open_models(run, checkout, "finish") as models:
            known = {one.sha256: one.test for one in earlier.tested if one.test} if earlier else {}
            tests = await _test(run, texts, known, models)
        used = dict(models.meter.accounts())
    state = before.model_copy(
        update={
            "simulated": run.simulated,
            "best": before.current if promoted else before.best,
            **charged(checkout, total(used.values()), used),
        }
    )
    entry = history_entry(
        run,
        "finish",
        state,
        checkout.skill,
        action="promote" if promoted else "finish",
        reason="the last skill is the best one" if promoted else "the best skill stands",
        score_before=before.best.measurement.score,
        score_after=before.current.measurement.score,
        tasks=before.current.measurement.n,
        usage=as_recorded(total(used.values())),
    )
    summary = _summary(run, checkout, state, entry, sha256(texts["first"]), tests, trained)
    commits = run.ledger.log(checkout.commit, paths=(folder.history,))
    seconds = (
        run.clock() - began + sum(float(one.trailers.get("Skillopt-Seconds", 0)) for one in commits)
    )
    files = {folder.best_skill: texts["best"]} if promoted else {}
    event = RunEvent(entry, state, checkout.skill, files, summary=summary, seconds=seconds)
    ended = record_events(run, checkout, event)
    run.observer(StageFinished("finish", "recorded"))
    return FinishOutcome(summary, ended, seconds)


def _summary(
    run: Run,
    checkout: Checkout,
    state: State,
    entry: HistoryEntry,
    initial_sha256: str,
    tests: Mapping[str, Measurement],
    trained: int,
) -> Summary:
    history = (*checkout.history, entry)

    def final(sha256: str, step: int, origin: str, score: float | None) -> FinalSkill:
        test = tests.get(sha256)
        return FinalSkill(
            sha256=sha256,
            step=step,
            origin=origin,
            score=score,
            test=test,
            interval=None if test is None else wilson(test.hard, test.n),
            by_type={} if test is None else by_type(run.test, test),
        )

    # what was measured before the tasks or the way of measuring changed does not compare
    first = history[comparable_from(history)]
    known = {first.skill_sha256: first.score_after, state.best.sha256: state.best.measurement.score}
    initial = final(initial_sha256, 0, "initial", known.get(initial_sha256))
    best, last = (
        final(one.sha256, one.step, one.origin, one.measurement.score)
        for one in (state.best, state.current)
    )
    totals, folder = dict[str, Usage](), run.ledger.at(checkout.commit)
    for one in history:
        conclusion = None if one.kind == "notes" else folder.read_conclusion(one)
        only = {"finish": "test", "confirm": "confirmation", "set_aside": "set aside"}.get(
            one.kind, "selection"
        )
        stages = {only: one.usage} if conclusion is None else by_stage(conclusion.accounts)
        for stage, used in stages.items():
            if used.calls:
                totals[stage] = totals.get(stage, Usage()) + used
    return Summary(
        run=state.run,
        skill=state.skill,
        step=state.step,
        epoch=state.epoch,
        usage=state.usage,
        accounts=state.accounts,
        simulated=run.simulated,
        total_steps=last_step(run.config, sizes_now(run, checkout), state, history),
        metric=run.config.evaluation.gate_metric,
        initial=initial,
        best=best,
        last=last,
        promoted=entry.action == "promote",
        best_gain=gain(initial, best, run.test),
        last_gain=gain(initial, last, run.test),
        epochs=tuple(epoch_summaries(history)),
        stages={stage: as_recorded(used) for stage, used in totals.items()},
        tested_under=run.tested_under,
        trained=trained,
    )


def beats(last: Snapshot, best: Snapshot) -> bool:
    """Whether the last skill scored higher on the same tasks; different tasks would add noise."""
    same_tasks = last.measurement.tasks.keys() == best.measurement.tasks.keys()
    return same_tasks and last.measurement.score > best.measurement.score + _ROUNDING

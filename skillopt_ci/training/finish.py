"""Finish: the end of a run. Validate the last skill, test the first, best and last, sum it all up.

The outcome is one commit with ``summary.json``. A run that goes on afterwards (more epochs, a
reviewer's commit) can be finished again; what was measured before is not measured again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    FinalSkill,
    HistoryEntry,
    Measurement,
    Snapshot,
    State,
    StepRecord,
    Summary,
    UsageRecord,
    account_records,
    with_accounts,
)
from skillopt_ci.model.types import Accounts, total
from skillopt_ci.progress import Note, StageFinished
from skillopt_ci.report.commits import finished
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.training.advance import prepare
from skillopt_ci.training.landing import Landing, land
from skillopt_ci.training.plan import total_steps
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled
from skillopt_ci.training.summary import epoch_summaries, usage_by_stage
from skillopt_ci.training.three_way import gain, tested_under, tests_known, try_out, with_test

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


async def finish(session: Session, run_started: float) -> FinishOutcome | None:
    """Do the end of the run; None if that was done and nothing has changed since.

    ``run_started`` is the clock's reading when the command began. Raises
    :class:`~skillopt_ci.errors.UsageError` while a candidate is in flight, and what measuring
    raises, with everything that was paid for kept.
    """
    began = session.clock()
    ready = await prepare(session, run_started)
    if ready.flight is not None:
        raise UsageError(
            "A candidate is in flight: its verdict is still to come.",
            hint="Let `skillopt-ci step` decide it first, then finish.",
        )
    standing = ready.standing
    earlier = session.folder.read_summary(partial(session.ledger.read, standing.commit))
    under = tested_under(session)
    if _is_finished(standing, earlier, under):
        return None
    ending = await _work_out(session, standing, tests_known(earlier, under), run_started)
    state, entry = _state(session, ending), _entry(session, ending)
    summary = _summary(session, ending, state, entry)
    seconds = seconds_so_far(session, standing) + session.clock() - began
    changes = {
        session.folder.state: document(state),
        session.folder.summary: document(summary),
        session.folder.history: "".join(map(line, (*standing.history, entry))),
        **({session.folder.best_skill: ending.texts["best"]} if ending.promoted else {}),
    }
    text = finished(entry, summary, seconds)
    commit = land(session, standing, Landing(None, True, changes, text))
    session.observer(StageFinished("finish", commit[:10]))
    return FinishOutcome(summary, commit, state, seconds)


def seconds_so_far(session: Session, standing: Settled) -> float:
    """What the run's commits say they took, as far as this clone has them."""
    commits = session.ledger.log(standing.commit, paths=(session.folder.history,))
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


async def _work_out(
    session: Session, standing: Settled, known: Mapping[str, Measurement], run_started: float
) -> _Ending:
    state, under = standing.state, tested_under(session)
    promoted = session.config.evaluation.eval_test and beats(state.current, state.best)
    if promoted:
        session.observer(Note("The last skill scored higher than the best one and replaces it."))
    read = partial(session.ledger.read, standing.commit)
    texts = {
        "first": read(session.folder.initial_skill) or "",
        "best": standing.skill if promoted else read(session.folder.best_skill) or "",
        "last": standing.skill,
    }
    if not under:
        return _Ending(standing, texts, promoted, under, {}, {})
    meter = session.meter(run_started, standing.spent)
    scope = f"{session.config.run}/finish@{standing.commit}"
    async with session.bench(scope, meter) as bench:
        tests = await try_out(session, texts, known, bench)
    return _Ending(standing, texts, promoted, under, tests, meter.accounts())


def _state(session: Session, ending: _Ending) -> State:
    state = ending.standing.state
    return state.model_copy(
        update={
            "best": state.current if ending.promoted else state.best,
            "usage": UsageRecord.of(ending.standing.spent + total(ending.used.values())),
            "accounts": with_accounts(state.accounts, account_records(ending.used)),
            "simulated": session.simulated,
        }
    )


def _entry(session: Session, ending: _Ending) -> HistoryEntry:
    state = ending.standing.state
    last = state.current.measurement
    return HistoryEntry(
        kind="finish",
        step=state.step,
        epoch=state.epoch,
        action="promote" if ending.promoted else "finish",
        reason="the last skill is the best one" if ending.promoted else "the best skill stands",
        score_before=state.best.measurement.score,
        score_after=last.score,
        best_score=(last if ending.promoted else state.best.measurement).score,
        tasks=last.n,
        skill_sha256=state.current.sha256,
        words=word_count(ending.standing.skill),
        config_sha256=session.config_sha256,
        usage=UsageRecord.of(total(ending.used.values())),
        simulated=session.simulated,
    )


def _summary(session: Session, ending: _Ending, state: State, entry: HistoryEntry) -> Summary:
    history = (*ending.standing.history, entry)
    initial, best, last = (
        with_test(skill, ending.tests, session.test) for skill in _skills(ending, state)
    )
    return Summary(
        run=state.run,
        skill=state.skill,
        simulated=session.simulated,
        step=state.step,
        total_steps=total_steps(len(session.splits.train), session.config.train),
        epoch=state.epoch,
        metric=session.config.evaluation.gate_metric,
        initial=initial,
        best=best,
        last=last,
        promoted=ending.promoted,
        best_gain=gain(initial, best),
        last_gain=gain(initial, last),
        epochs=epoch_summaries(history),
        stages=usage_by_stage(history, _records(session, ending.standing)),
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


def _records(session: Session, standing: Settled) -> Iterator[StepRecord | BoundaryRecord]:
    read, folder = partial(session.ledger.read, standing.commit), session.folder
    for entry in standing.history:
        record: StepRecord | BoundaryRecord | None = None
        if entry.kind == "step":
            record = folder.read_step(read, entry.step)
        elif entry.kind == "slow_update":
            record = folder.read_boundary(read, entry.epoch)
        if record is not None:
            yield record

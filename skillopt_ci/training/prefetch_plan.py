"""Foresight: what is made ahead of its turn, and when that is known."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from skillopt_ci.config.config import Config, Evaluation, Limits
from skillopt_ci.config.rollout import ChatConfig, HumanConfig, LocalExecutor
from skillopt_ci.errors import SkilloptError
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED
from skillopt_ci.model.types import Account, Role, Usage
from skillopt_ci.progress import CallPaid
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.attempts import made_under, next_rounds, round_of
from skillopt_ci.training.baseline import as_settled, best_text, learns_nothing, unsettled
from skillopt_ci.training.evaluate import first_attempts, known_measurement, overused, planned_tasks
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.plan import boundary_due, plan_step, total_steps
from skillopt_ci.training.prefetcher import WorkAhead
from skillopt_ci.training.resume import BoundaryFlight, Flight, in_flight
from skillopt_ci.training.rollout_stage import Footing, attempts_so_far, find_footing
from skillopt_ci.training.run_context import Bench, Session, equipped
from skillopt_ci.training.slow_update import (
    earlier_skill,
    first_epoch,
    sampling_order,
    sampling_seed,
)
from skillopt_ci.training.state import Settled, Standing, basis_of, basis_sha256, foresee_standing

# Outlook: the attempts at tasks that the next piece of work begins with, known in advance.

#: What attempts are for: the current skill's score, a step's batches, the verdict on a candidate
#: in flight, or the comparison of two epochs' skills.
Phase = Literal["measure", "rollout", "evaluation", "comparison"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is done next in a run, for step ``step``; ``attempts`` may be empty.

    ``spent`` is what the run has consumed so far.
    """

    phase: Phase
    step: int
    attempts: tuple[AttemptRequest, ...]
    spent: Usage


def look_ahead(session: Session) -> Outlook | None:
    """Say what is next; None if nothing is left.

    Raises what finding the ground raises; see :func:`~.standing.find_standing`.
    """
    position = session.ledger.sync()
    standing = foresee_standing(session, position)
    if standing.state is None or unsettled(session, standing):
        step = 1 if standing.state is None else standing.state.step + 1
        return Outlook("measure", step, tuple(_to_measure(session, standing)), standing.spent)
    settled = as_settled(standing, standing.state)
    flight = None
    if position.candidate is not None:
        flight = in_flight(session, settled, position.candidate)
    if flight is not None:
        return _evaluation(session, settled, flight)
    return look_beyond(session, settled, find_footing(session, settled))


def look_beyond(session: Session, standing: Settled, footing: Footing) -> Outlook | None:
    """What is next on a ground without a candidate in flight; None if nothing is left.

    ``footing`` is that of the next batch if no end of an epoch comes before it.
    """
    epoch = boundary_before_batch(session, standing)
    if epoch is None:
        return _rollout(session, standing, footing)
    if epoch > 1:
        return _comparison(session, standing, epoch)
    # The first end asks no model, and its place for guidance makes another text of the skill.
    skill, _ = first_epoch(session, standing)
    if session.config.train.staleness:
        footing = Footing(standing.skill, attempts_so_far(session, standing))
    elif skill != standing.skill:
        footing = Footing(skill, ())
    nothing = Outlook("comparison", standing.state.step, (), standing.spent)
    return _rollout(session, standing, footing) or nothing


def boundary_before_batch(session: Session, standing: Settled) -> int | None:
    """The epoch whose end comes before the next batch, if one does."""
    inline = session.config.schedule.slow_update == "inline"
    return boundary_due(session, standing) if inline else None


def batch_orders(session: Session, footing: Footing, step: int) -> tuple[AttemptRequest, ...]:
    """The attempts at the tasks of step ``step`` on ``footing``."""
    plan = plan_step(session.splits.train, session.config.train, step, session.first_seed)
    tasks = {task.id: task for batch in plan.batches for task in batch.tasks}
    each = session.config.rollout.attempts
    return tuple(
        AttemptRequest(one.task, footing.skill, "rollout", number)
        for one in next_rounds(tasks.values(), footing.made, each)
        for number in round_of(one.number, each)
    )


def _to_measure(session: Session, standing: Standing) -> Iterator[AttemptRequest]:
    attempts = session.config.rollout.attempts
    yield from _attempts(session.selection, standing.skill, "selection", attempts)
    state, best = standing.state, best_text(session, standing)
    if state is not None and best is not None and state.measured_under != session.measured_under:
        yield from _attempts(session.selection, best, "selection", attempts)


def _evaluation(session: Session, standing: Settled, flight: Flight | BoundaryFlight) -> Outlook:
    evaluation, each = session.config.evaluation, session.config.rollout.attempts
    planned = set(planned_tasks(session, standing, evaluation))
    known = known_measurement(session, standing, flight.skill)
    if known is not None:
        planned -= {*known[1].tasks, *known[1].errors}
    tasks = [task for task in session.selection if task.id in planned]
    attempts = _attempts(tasks, flight.skill, "selection", each)
    return Outlook("evaluation", flight.record.step, tuple(attempts), standing.spent)


def earlier_side(session: Session, standing: Settled, epoch: int) -> tuple[AttemptRequest, ...]:
    """The attempts of a comparison that are made under the skill of the epoch before."""
    return _side(session, earlier_skill(session, standing, epoch), epoch)


def _comparison(session: Session, standing: Settled, epoch: int) -> Outlook:
    both = (*earlier_side(session, standing, epoch), *_side(session, standing.skill, epoch))
    return Outlook("comparison", standing.state.step, both, standing.spent)


def _side(session: Session, skill: str, epoch: int) -> tuple[AttemptRequest, ...]:
    size = session.config.optimizer.slow_update_samples
    drawn = sampling_order(session.splits.train, sampling_seed(session, epoch))[:size]
    return tuple(_attempts(drawn, skill, "slow_rollout", session.config.rollout.attempts))


def _rollout(session: Session, standing: Settled, footing: Footing) -> Outlook | None:
    step = standing.state.step + 1
    over = step > total_steps(len(session.splits.train), session.config.train)
    if over or learns_nothing(session, standing):
        return None
    return Outlook("rollout", step, batch_orders(session, footing, step), standing.spent)


def _attempts(
    tasks: Sequence[Task], skill: str, stage: str, attempts: int
) -> Iterator[AttemptRequest]:
    return (
        AttemptRequest(task, skill, stage, number) for task in tasks for number in range(attempts)
    )


#: What attempts of no use are booked under.
STAGE = "ahead"


@asynccontextmanager
async def working_ahead(session: Session) -> AsyncIterator[Session]:
    """The session, with what `schedule.ahead` lets be made early until the context ends."""
    async with equipped(session) as ready:
        equipment = ready.equipment
        if equipment is None or not may_work_ahead(session.config):
            yield ready
            return
        async with AsyncExitStack() as resources:
            reach = session.config.schedule.ahead
            ahead = WorkAhead(_Maker(_recording(ready), resources), equipment.scheduler, reach)
            patient = False
            try:
                yield replace(ready, ahead=ahead)
                patient = True
            except SkilloptError:
                patient = True
                raise
            finally:
                await ahead.close(patient=patient)


def may_work_ahead(config: Config) -> bool:
    """Whether attempts may be made early.

    Not where each call is weighed, where nothing is kept, where others share attempts out, and
    where people make them.
    """
    return (
        config.schedule.ahead != "none"
        and config.cache.enabled
        and isinstance(config.rollout.executor, LocalExecutor)
        and not isinstance(config.rollout.solver, HumanConfig)
        and not any(map(_limits_calls, (config.budget.run, config.budget.step)))
    )


def foresee_first_batch(session: Session, standing: Standing) -> None:
    """While the first skill is measured: the first batch, which is attempted under it next."""
    if session.ahead.reach == "likely" and standing.state is None:
        first = batch_orders(session, Footing(standing.skill, ()), 1)
        session.ahead.expect(first, sure=False)


def foresee_rejection(session: Session, standing: Settled, ground: Settled) -> None:
    """While a candidate is worked out: what comes next on ``ground``, on which it is rejected.

    That is what becomes of most candidates. What comes next whatever becomes of this one is made
    in any case: a stale batch, or one side of a comparison. ``ground`` is ``standing`` after the
    work at hand.
    """
    if session.ahead.reach == "likely" or _comes_anyway(session, ground):
        session.ahead.expect(_after(session, standing, ground), sure=False)
    else:
        _foresee_comparison(session, ground)


def foresee_measuring(
    session: Session, standing: Settled, candidate: str, evaluation: Evaluation
) -> None:
    """While ``candidate`` is committed: the attempts that its verdict needs first."""
    if session.ahead.reach == "none" or overused(session, standing):
        return
    if known_measurement(session, standing, candidate) is None:
        first = first_attempts(session, standing, candidate, evaluation)
        session.ahead.expect(first, sure=True)


def foresee_verdict(session: Session, standing: Settled, ground: Settled, candidate: str) -> None:
    """While ``candidate`` is measured: what comes next if it is merged, and if it is not."""
    if _comes_anyway(session, ground):
        session.ahead.expect(_after(session, standing, ground), sure=False)
    elif session.ahead.reach == "likely":
        rejected = _after(session, standing, ground)
        merged = _after(session, standing, replace(ground, skill=candidate))
        session.ahead.fork(merged=merged, rejected=rejected)
    else:
        _foresee_comparison(session, ground)


def _foresee_comparison(session: Session, ground: Settled) -> None:
    """Of two epochs that are compared next, one is over whatever the verdict."""
    epoch = boundary_before_batch(session, ground)
    if session.ahead.reach != "none" and epoch is not None and epoch > 1:
        session.ahead.expect(earlier_side(session, ground, epoch), sure=False)


def foresee_next(session: Session, standing: Settled, ground: Settled) -> None:
    """While a verdict is recorded: what comes after it on the ``ground`` that it makes."""
    if session.ahead.reach != "none":
        skill = _attempted_next(session, standing, ground)
        footing = Footing(skill, attempts_so_far(session, ground, skill))
        session.ahead.expect(_beyond(session, ground, footing), sure=True)


def foresee_after_step(
    session: Session, standing: Settled, record: StepRecord, ground: Settled
) -> None:
    """The same for the verdict on a step, whose ``record`` no commit has yet."""
    if session.ahead.reach == "none":
        return
    records = (*all_steps(session, standing), record)
    skill = _attempted_next(session, standing, ground)
    made = made_under(sha256(skill), basis_sha256(basis_of(session)), records)
    session.ahead.expect(_beyond(session, ground, Footing(skill, made)), sure=True)


def account_for_lost(session: Session, meter: Meter) -> None:
    """Book what was made early and is of no use on the work at hand."""
    lost = session.ahead.lost()
    if lost != Usage():
        meter.charge(Account(Role.TARGET, STAGE), lost)


def _after(session: Session, standing: Settled, ground: Settled) -> tuple[AttemptRequest, ...]:
    """What comes after the work at hand, whose own attempts no record has yet."""
    skill = _attempted_next(session, standing, ground)
    made, own = attempts_so_far(session, ground, skill), find_footing(session, standing)
    if ground.state.step > standing.state.step and own.skill == skill:
        now = batch_orders(session, own, ground.state.step)
        made = (*made, *((order.task.id, order.attempt) for order in now))
    return _beyond(session, ground, Footing(skill, made))


def _beyond(session: Session, ground: Settled, footing: Footing) -> tuple[AttemptRequest, ...]:
    outlook = look_beyond(session, ground, footing)
    return () if outlook is None else outlook.attempts


def _attempted_next(session: Session, standing: Settled, ground: Settled) -> str:
    """The skill that the batch after the work at hand is attempted under."""
    return standing.skill if _is_stale(session, ground) else ground.skill


def _comes_anyway(session: Session, ground: Settled) -> bool:
    """Whether a batch comes next that does not depend on the verdict on the work at hand."""
    return session.ahead.reach != "none" and _is_stale(session, ground)


def _is_stale(session: Session, ground: Settled) -> bool:
    stale = session.config.train.staleness > 0
    return stale and boundary_before_batch(session, ground) is None


def _recording(session: Session) -> Session:
    """Only agents' courses are recorded: a chat answer is, whole, by the work that needs it."""
    chats = session.environment is None and isinstance(session.config.rollout.solver, ChatConfig)
    return replace(session, events=None) if chats else session


def _limits_calls(limits: Limits) -> bool:
    return any(one is not None for one in (limits.calls, limits.tokens, limits.cost_usd))


class _Maker:
    """Makes single attempts with a bench that is opened for the first of them."""

    def __init__(self, session: Session, resources: AsyncExitStack) -> None:
        self._session = session
        self._resources = resources
        self._bench: Bench | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, order: AttemptRequest) -> Usage:
        """Make the attempt of ``order``, and keep what it came to unclaimed."""
        bench = await self._opened()
        with bench.meter.shared() as share:
            await bench.runner.executor(order, bench.runner.attempting)
        return share.charged

    async def _opened(self) -> Bench:
        async with self._opening:
            if self._bench is None:
                opened = self._session.bench(UNCLAIMED, self._meter())
                self._bench = await self._resources.enter_async_context(opened)
            return self._bench

    def _meter(self) -> Meter:
        session = self._session
        return Meter(
            clock=session.clock,
            told=lambda usage: session.observer(CallPaid(usage.tokens, usage.cost_usd)),
        )

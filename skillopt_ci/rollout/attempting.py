"""One attempt at one task: work, keep, grade; again where infrastructure spoilt it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

from skillopt_ci.computer.computer import Computer, ComputerFailure
from skillopt_ci.config.rollout import AttemptLimits, RolloutSettings
from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.retry import backoff
from skillopt_ci.model.types import Account, ModelRefusal, ModelUnavailable, Role, Usage
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.rollout.events import (
    AttemptEnded,
    AttemptStarted,
    Recorder,
    StepTaken,
    TryFailed,
    WorkEnded,
    nobody,
)
from skillopt_ci.rollout.grading import Grading, Regrading
from skillopt_ci.rollout.labels import labelled, retried
from skillopt_ci.rollout.leavings import submission_fault, with_artifacts
from skillopt_ci.rollout.order import Order
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.rollout.places import Places
from skillopt_ci.rollout.redacted import redacted_work
from skillopt_ci.rollout.results import failed_rollout, graded_rollout, ungraded_rollout
from skillopt_ci.rollout.shelf import Shelf
from skillopt_ci.rollout.solver import ChatSolver, Solver, Workplace
from skillopt_ci.rollout.transcript import Transcript
from skillopt_ci.rollout.work import Worked, work
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.build import NEEDS_COMPUTER
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Attempting:
    """Makes attempts.

    Without ``places`` there are no computers, without a ``shelf`` nothing is kept. What an agent
    consumed that no metered client knows of is charged to ``meter``. ``sleep`` and ``draw`` are
    for the pauses before further tries. The results of ``evidence`` stages have their artifacts.
    ``redact`` takes secrets out of what the work left, before it is graded and kept.
    """

    solver: Solver
    grading: Grading
    settings: RolloutSettings = field(default_factory=RolloutSettings)
    places: Places | None = None
    shelf: Shelf | None = None
    meter: Meter | None = None
    record: Recorder = nobody
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random
    evidence: Collection[str] = ()
    redact: Redact = unchanged

    async def __call__(self, order: Order) -> Rollout:
        """Return what came of ``order``.

        Raises what says nothing about the task: a wrong configuration, a used-up budget.
        """
        with labelled(order):
            self.record(AttemptStarted(self.solver.name, sha256(order.skill)))
            try:
                rollout = await self._tries(order)
            except asyncio.CancelledError:
                cancelled = failed_rollout(order, Status.CANCELLED, "cancelled", 0)
                self.record(AttemptEnded.of(cancelled))
                raise
            self.record(AttemptEnded.of(rollout))
            return rollout

    def kept(self, order: Order) -> bool:
        """Whether the work of ``order`` was done and kept before; a chat answer never is."""
        key = self._key(order, self._limits(order.task))
        return self.shelf is not None and bool(key) and self.shelf.holds(key)

    async def _tries(self, order: Order) -> Rollout:
        failure = ""
        # a chat answer was tried as often as `model.target.retries` says already
        retries = 0 if self._chats else self.settings.retries
        for number in range(retries + 1):
            if number:
                await self.sleep(backoff(number, None, self.draw))
            with retried(number):
                try:
                    return replace(await self._attempt(order), retries=number)
                except (ModelUnavailable, ComputerFailure, EnvironmentFailure) as error:
                    failure = error.message
                    self.record(TryFailed(failure))
        return failed_rollout(order, Status.ERROR, failure, retries)

    async def _attempt(self, order: Order) -> Rollout:
        limits = self._limits(order.task)
        key = self._key(order, limits)
        known = self.shelf.find(key, order.stage) if self.shelf and key else None
        if known is not None:
            self._tell_end(known, key, stored=True)
            return await self._graded(order, known, key)
        if not self._wants_computer(order.task):
            worked = await self._solve(order, limits, None)
            return await self._graded(order, await self._kept(key, *worked), key)
        async with self._place().prepared(order.task, limits.setup_seconds) as computer:
            worked = await self._solve(order, limits, computer)
            kept = await self._kept(key, *worked)
            if self.grading.keeps_computer(order.task):
                there = replace(kept, attempt=replace(kept.attempt, computer=computer))
                return await self._graded(order, there, key)
        return await self._graded(order, kept, key)

    async def _solve(
        self, order: Order, limits: AttemptLimits, computer: Computer | None
    ) -> tuple[Worked, Usage]:
        """What came of the work, with its artifacts, and what was charged for it."""
        if self.meter is None:
            return await self._work(
                order, limits, computer, Transcript(order.task.messages)
            ), Usage()
        if not self._chats:
            await self.meter.check()
        so_far = Transcript(order.task.messages)
        with self.meter.shared() as share:
            try:
                worked = await self._work(order, limits, computer, so_far)
                used = worked.attempt.usage
            except BaseException:
                if share.empty and so_far.usage != Usage():
                    self.meter.charge(Account(Role.TARGET, order.stage), so_far.usage)
                raise
            if share.empty and used != Usage():
                self.meter.charge(Account(Role.TARGET, order.stage), used)
            return worked, share.charged

    async def _work(
        self, order: Order, limits: AttemptLimits, computer: Computer | None, so_far: Transcript
    ) -> Worked:
        worked = await work(
            self.solver,
            order.task,
            order.skill,
            self._workplace(order, limits, computer, so_far),
            limits=None if self._chats else limits,
            grade_every_step=self.settings.grade_every_step,
            told=lambda step: self.record(StepTaken(step)),
            so_far=so_far,
        )
        if not so_far.said and worked.ending == "refused":
            asked = replace(worked.attempt, messages=order.task.messages)
            worked = replace(worked, attempt=asked)
        if computer is not None:
            worked = await with_artifacts(worked, self._place(), order.task, computer)
        return redacted_work(worked, self.redact)

    def _workplace(
        self, order: Order, limits: AttemptLimits, computer: Computer | None, so_far: Transcript
    ) -> Workplace:
        async def check_submission() -> str | None:
            if computer is None:
                return None
            return await submission_fault(self._place(), order.task, limits, computer)

        async def grade_now() -> Score | None:
            worked = Worked(so_far.attempt())
            if computer is not None:
                worked = await with_artifacts(worked, self._place(), order.task, computer)
            return await self.grading.grade(order.task, worked.attempt)

        return Workplace(
            stage=order.stage,
            attempt=order.attempt,
            limits=limits,
            computer=computer,
            nudges=self.settings.nudges,
            check_submission=check_submission,
            grade_now=grade_now,
        )

    async def _kept(self, key: str, worked: Worked, charged: Usage) -> Worked:
        if self.shelf is not None and key:
            await self.shelf.keep(key, worked, charged)
        self._tell_end(worked, key, stored=False)
        return worked

    async def _graded(self, order: Order, worked: Worked, key: str) -> Rollout:
        if worked.ending != "done":
            return ungraded_rollout(order, worked)
        try:
            score = await self._regrading().score(order.task, worked.attempt, key)
        except (GraderError, ModelUnavailable, ModelRefusal) as failure:
            return ungraded_rollout(order, worked, failure.message)
        shown = worked.attempt.artifacts if order.stage in self.evidence else b""
        return replace(graded_rollout(order, worked, score), artifacts=shown)

    def _regrading(self) -> Regrading:
        return Regrading(
            self.grading, self.shelf, self.settings.retries, self.record, self.sleep, self.draw
        )

    @property
    def _chats(self) -> bool:
        """Whether an attempt is one chat call: its client tries again, and its answer is cached."""
        return isinstance(self.solver, ChatSolver)

    def _limits(self, task: Task) -> AttemptLimits:
        own = None if self.places is None else self.places.limits(task)
        return self.settings.limits.changed(own)

    def _key(self, order: Order, limits: AttemptLimits) -> str:
        if self.shelf is None or self._chats:
            return ""
        return self.shelf.key(order, limits.model_dump(exclude={"grading_seconds"}))

    def _wants_computer(self, task: Task) -> bool:
        return (
            self.solver.needs_computer
            or task.computer is not None
            or (self.places is not None and self.places.needed(task))
        )

    def _place(self) -> Places:
        if self.places is None:
            raise UsageError("This run's tasks need a computer.", hint=NEEDS_COMPUTER)
        return self.places

    def _tell_end(self, worked: Worked, key: str, *, stored: bool) -> None:
        attempt, last = worked.attempt, worked.attempt.messages[-1:]
        told = not stored and any(one.content == attempt.response for one in last)
        response = None if told else attempt.response
        self.record(WorkEnded(response, key, stored, attempt.limit, len(attempt.artifacts)))

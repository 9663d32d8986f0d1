"""One attempt at one task: work, keep, grade; again where infrastructure spoilt it."""

import asyncio
import io
import random
import tarfile
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from skillopt_ci.computer.computer import Computer
from skillopt_ci.config.rollout import AttemptLimits, RolloutConfig
from skillopt_ci.errors import ComputerFailure, EnvironmentFailure, FileRefused, UsageError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.middleware import redacted_message
from skillopt_ci.model.retry import backoff
from skillopt_ci.model.types import Account, ModelRefusal, ModelUnavailable, Role, Usage
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.rollout.computer_pool import ComputerPool, how_it_ended
from skillopt_ci.rollout.events import (
    AttemptEnded,
    AttemptStarted,
    Recorder,
    StepTaken,
    TryFailed,
    WorkEnded,
    ignore_event,
)
from skillopt_ci.rollout.limits import Transcript, WorkResult, run_solver
from skillopt_ci.rollout.solver import ChatSolver, Solver, Workplace
from skillopt_ci.rollout.store import AttemptCache, sha256_of
from skillopt_ci.rollout.types import Attempt, AttemptRequest, Rollout, Status, in_attempt, in_retry
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.build import NEEDS_COMPUTER
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task

# What came of work on a task, without the secrets that an agent may have come across.


def redacted_work(worked: WorkResult, redact: Redact) -> WorkResult:
    """``worked`` as it may be kept, graded, recorded and shown to the optimizer.

    It is done before grading, so that a kept attempt is graded as a fresh one is.
    """
    if redact is unchanged:
        return worked
    attempt = worked.attempt
    clean = replace(
        attempt,
        messages=tuple(redacted_message(one, redact) for one in attempt.messages),
        response=redact(attempt.response),
        trace=redact(attempt.trace),
        artifacts=redacted_tar(attempt.artifacts, redact),
    )
    return replace(worked, attempt=clean, reason=redact(worked.reason))


def redacted_tar(archive: bytes, redact: Redact) -> bytes:
    """The tar with the secrets taken out of its files; the very same bytes where there are none.

    Names of files and what is compressed in them stay as they are.
    """
    if not archive or _redacted(archive, redact) == archive:
        return archive
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            content = old.extractfile(member) if member.isreg() else None
            if content is None:
                new.addfile(member)
                continue
            clean = _redacted(content.read(), redact)
            member.size = len(clean)
            new.addfile(member, io.BytesIO(clean))
    return buffer.getvalue()


def _redacted(content: bytes, redact: Redact) -> bytes:
    """Bytes that are no UTF-8 pass through as they are."""
    return redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


# What an agent leaves behind on its computer: whether it is a submission, and how it is taken.

#: Most that is kept of what an agent leaves behind.
ARTIFACT_BYTES = 100_000_000


async def submission_fault(
    places: ComputerPool, task: Task, limits: AttemptLimits, computer: Computer
) -> str | None:
    """Why there is no valid submission yet; None if there is one, or none is asked for."""
    submission = places.block(task).submission
    if submission is None:
        return None
    result = await computer.run(submission.command, timeout=limits.grading_seconds)
    if not result.exit_code and not result.timed_out:
        return None
    how = how_it_ended(result, limits.grading_seconds)
    return submission.message or f"There is no valid submission yet: the check {how}"


async def with_artifacts(
    worked: WorkResult, places: ComputerPool, task: Task, computer: Computer
) -> WorkResult:
    """Return the work with what it left behind; more than can be taken is the agent's own error."""
    if worked.attempt.artifacts:
        return worked
    paths = places.block(task).artifacts
    try:
        artifacts = await computer.export(paths, max_bytes=ARTIFACT_BYTES)
    except FileRefused as error:
        reason = f"What it left behind cannot be taken: {error.message}"
        return worked if worked.reason else replace(worked, ending="agent_error", reason=reason)
    return replace(worked, attempt=replace(worked.attempt, artifacts=artifacts))


# Grading of attempts: kept where it can be, tried again where infrastructure spoilt it.


class Grading(Protocol):
    """Grades attempts."""

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        """Return the score; raises :class:`GraderError` when the grader is at fault."""
        ...

    def facts(self, task: Task) -> Mapping[str, object] | None:
        """Return what a score depends on besides the attempt; None where that is unknown."""
        ...

    def keeps_computer(self, task: Task) -> bool:
        """Return whether the agent's own computer is graded on."""
        ...


@dataclass(frozen=True, slots=True)
class Regrading:
    """Grades with ``grading``: the work is never done again for its sake."""

    grading: Grading
    shelf: AttemptCache | None
    retries: int
    record: Recorder
    sleep: Callable[[float], Awaitable[None]]
    draw: Callable[[], float]

    async def score(self, task: Task, attempt: Attempt, key: str) -> Score:
        """Grade the attempt that is stored under ``key``, if it is; raises GraderError."""
        facts = self.grading.facts(task) if key else None
        scorer = "" if facts is None else sha256_of(facts)
        known = self.shelf.find_grade(key, scorer) if self.shelf and scorer else None
        if known is not None:
            return known
        score = await self._tries(task, attempt)
        if self.shelf is not None and scorer:
            self.shelf.keep_grade(key, scorer, score)
        return score

    async def _tries(self, task: Task, attempt: Attempt) -> Score:
        for number in range(1, self.retries + 1):
            try:
                return await self.grading.grade(task, attempt)
            except GraderError as failure:
                if not isinstance(failure.__cause__, ComputerFailure):
                    raise
                self.record(TryFailed(failure.message))
            await self.sleep(backoff(number, None, self.draw))
        return await self.grading.grade(task, attempt)


# From what came of the work to the result of the attempt.


def graded_rollout(order: AttemptRequest, worked: WorkResult, score: Score) -> Rollout:
    """An attempt that was graded."""
    status = Status.SCORED if worked.attempt.limit is None else Status.LIMIT
    return _rollout(order, worked, status, score)


def ungraded_rollout(order: AttemptRequest, worked: WorkResult, fault: str = "") -> Rollout:
    """An attempt with an ending of its own, or whose grader has the ``fault``."""
    status = {
        "done": Status.GRADER_ERROR,
        "refused": Status.REFUSED,
        "agent_error": Status.AGENT_ERROR,
    }[worked.ending]
    answer = "" if worked.ending == "refused" else worked.attempt.response
    return _rollout(order, worked, status, Score(0.0, 0.0, fault or worked.reason, answer))


def failed_rollout(order: AttemptRequest, status: Status, reason: str, retries: int) -> Rollout:
    """An attempt of which nothing is left; ``retries`` were made in vain."""
    return Rollout(
        task_id=order.task.id,
        status=status,
        hard=0.0,
        soft=0.0,
        reason=reason,
        answer="",
        messages=order.task.messages,
        task_type=order.task.task_type,
        attempt=order.attempt,
        retries=retries,
    )


def _rollout(order: AttemptRequest, worked: WorkResult, status: Status, score: Score) -> Rollout:
    attempt = worked.attempt
    return Rollout(
        task_id=order.task.id,
        status=status,
        hard=score.hard,
        soft=score.soft,
        reason=score.reason,
        answer=score.answer,
        messages=attempt.messages,
        task_type=order.task.task_type,
        n_turns=attempt.n_turns,
        attempt=order.attempt,
        trace=attempt.trace,
        limit=attempt.limit,
        usage=attempt.usage,
        progress=worked.progress,
    )


@dataclass(frozen=True, slots=True)
class AttemptRunner:
    """Makes attempts.

    Without ``places`` there are no computers, without a ``shelf`` nothing is kept. What an agent
    consumed that no metered client knows of is charged to ``meter``. ``sleep`` and ``draw`` are
    for the pauses before further tries. The results of ``evidence`` stages have their artifacts.
    ``redact`` takes secrets out of what the work left, before it is graded and kept.
    """

    solver: Solver
    grading: Grading
    settings: RolloutConfig = field(default_factory=RolloutConfig)
    places: ComputerPool | None = None
    shelf: AttemptCache | None = None
    meter: Meter | None = None
    record: Recorder = ignore_event
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random
    evidence: Collection[str] = ()
    redact: Redact = unchanged

    async def __call__(self, order: AttemptRequest) -> Rollout:
        """Return what came of ``order``.

        Raises what says nothing about the task: a wrong configuration, a used-up budget.
        """
        with in_attempt(order):
            self.record(AttemptStarted(self.solver.name, sha256(order.skill)))
            try:
                rollout = await self._tries(order)
            except asyncio.CancelledError:
                cancelled = failed_rollout(order, Status.CANCELLED, "cancelled", 0)
                self.record(AttemptEnded.of(cancelled))
                raise
            self.record(AttemptEnded.of(rollout))
            return rollout

    def kept(self, order: AttemptRequest) -> bool:
        """Whether the work of ``order`` was done and kept before; a chat answer never is."""
        key = self._key(order, self._limits(order.task))
        return self.shelf is not None and bool(key) and self.shelf.holds(key)

    async def _tries(self, order: AttemptRequest) -> Rollout:
        failure = ""
        # a chat answer was tried as often as `model.target.retries` says already
        retries = 0 if self._chats else self.settings.retries
        for number in range(retries + 1):
            if number:
                await self.sleep(backoff(number, None, self.draw))
            with in_retry(number):
                try:
                    return replace(await self._attempt(order), retries=number)
                except (ModelUnavailable, ComputerFailure, EnvironmentFailure) as error:
                    failure = error.message
                    self.record(TryFailed(failure))
        return failed_rollout(order, Status.ERROR, failure, retries)

    async def _attempt(self, order: AttemptRequest) -> Rollout:
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
        self, order: AttemptRequest, limits: AttemptLimits, computer: Computer | None
    ) -> tuple[WorkResult, Usage]:
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
        self,
        order: AttemptRequest,
        limits: AttemptLimits,
        computer: Computer | None,
        so_far: Transcript,
    ) -> WorkResult:
        worked = await run_solver(
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
        self,
        order: AttemptRequest,
        limits: AttemptLimits,
        computer: Computer | None,
        so_far: Transcript,
    ) -> Workplace:
        async def check_submission() -> str | None:
            if computer is None:
                return None
            return await submission_fault(self._place(), order.task, limits, computer)

        async def grade_now() -> Score | None:
            worked = WorkResult(so_far.attempt())
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

    async def _kept(self, key: str, worked: WorkResult, charged: Usage) -> WorkResult:
        if self.shelf is not None and key:
            await self.shelf.keep(key, worked, charged)
        self._tell_end(worked, key, stored=False)
        return worked

    async def _graded(self, order: AttemptRequest, worked: WorkResult, key: str) -> Rollout:
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

    def _key(self, order: AttemptRequest, limits: AttemptLimits) -> str:
        if self.shelf is None or self._chats:
            return ""
        return self.shelf.key(order, limits.model_dump(exclude={"grading_seconds"}))

    def _wants_computer(self, task: Task) -> bool:
        return (
            self.solver.needs_computer
            or task.computer is not None
            or (self.places is not None and self.places.needed(task))
        )

    def _place(self) -> ComputerPool:
        if self.places is None:
            raise UsageError("This run's tasks need a computer.", hint=NEEDS_COMPUTER)
        return self.places

    def _tell_end(self, worked: WorkResult, key: str, *, stored: bool) -> None:
        attempt, last = worked.attempt, worked.attempt.messages[-1:]
        told = not stored and any(one.content == attempt.response for one in last)
        response = None if told else attempt.response
        self.record(WorkEnded(response, key, stored, attempt.limit, len(attempt.artifacts)))

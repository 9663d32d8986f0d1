"""Roll out tasks. An attempt at one: work, store, grade; retry after infrastructure errors."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import uuid4

from skillopt_ci.aio import Slots, map_ordered, raise_if_cancelled, shielded, stream
from skillopt_ci.computer.archive import pack, unpack
from skillopt_ci.computer.computer import Computer
from skillopt_ci.config.rollout import AttemptLimits, RolloutConfig
from skillopt_ci.errors import ComputerFailure, EnvironmentFailure, FileRefused, UsageError
from skillopt_ci.messages import well_formed
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import sha256_of
from skillopt_ci.model.retry import backoff
from skillopt_ci.model.types import (
    Account,
    ModelRefusal,
    ModelUnavailable,
    RequestTooLarge,
    Role,
    Usage,
    redacted_message,
)
from skillopt_ci.progress import silent
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.rollout import events
from skillopt_ci.rollout.computer_pool import NEEDS_COMPUTER, ComputerPool, how_it_ended, limits_of
from skillopt_ci.rollout.limits import Transcript, run_solver
from skillopt_ci.rollout.solver import ChatSolver, Solver, Workplace
from skillopt_ci.rollout.store import AttemptCache
from skillopt_ci.rollout.types import Attempt, AttemptRequest, Executor, Rollout, Status, in_attempt
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task

ARTIFACT_BYTES = 100_000_000

#: The status of an attempt without a grade, by how its work ended.
_UNGRADED = {
    "done": Status.GRADER_ERROR,
    "refused": Status.REFUSED,
    "agent_error": Status.AGENT_ERROR,
}


class Grading(Protocol):
    async def grade(self, task: Task, attempt: Attempt) -> Score:
        """Return the score; raises :class:`GraderError` if the grader fails."""

    def facts(self, task: Task) -> Mapping[str, object] | None:
        """What a score depends on besides the attempt; None if unknown."""

    def keeps_computer(self, task: Task) -> bool:
        """Whether grading uses the agent's own computer."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Makes as many attempts at once as ``slots`` admit, here unless there is an ``executor``.

    ``join`` waits for the same attempt if it is being prefetched.
    """

    attempting: "AttemptRunner"
    slots: Slots
    executor: Executor | None = None
    join: Callable[[AttemptRequest], Awaitable[None]] | None = None

    @property
    def caveat(self) -> str:
        """What the attempts' computers do not guarantee; empty without computers."""
        pool = self.attempting.pool
        return "" if pool is None else pool.computers.caveat

    async def carry_out(
        self, requests: Iterable[AttemptRequest], done: Callable[[Rollout], None] = silent
    ) -> tuple[Rollout, ...]:
        return tuple(
            await map_ordered(
                lambda one: self._carry_out(one, done), requests, limit=self.slots.limit
            )
        )

    def stream(self, requests: Iterable[AttemptRequest]) -> AsyncGenerator[Rollout, None]:
        return stream(self._carry_out, requests, limit=self.slots.limit)

    async def _carry_out(
        self, request: AttemptRequest, done: Callable[[Rollout], None] = silent
    ) -> Rollout:
        if self.join is not None:
            await self.join(request)
        async with self.slots:
            if self.executor is None:
                rollout = await self.attempting(request)
            else:
                rollout = await self.executor(request, self.attempting)
        done(rollout)
        return rollout


@dataclass(frozen=True, slots=True)
class AttemptRunner:
    """Makes attempts; without ``pool`` there are no computers, without ``cache`` nothing is stored.

    Usage that an agent reports but no metered client saw is charged to ``meter``. ``sleep`` and
    ``draw`` make pauses before retries. Rollouts of ``evidence`` stages include artifacts.
    ``redact`` removes secrets from the work before it is graded and stored.
    """

    solver: Solver
    grading: Grading
    settings: RolloutConfig = field(default_factory=RolloutConfig)
    pool: ComputerPool | None = None
    cache: AttemptCache | None = None
    meter: Meter = field(default_factory=Meter)
    record: events.Recorder = silent
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random
    evidence: Collection[str] = ()
    redact: Redact = unchanged

    async def __call__(self, request: AttemptRequest) -> Rollout:
        """Make the attempt; raises errors that are not the task's: bad settings, spent budgets."""
        with in_attempt(request):
            self.record(events.AttemptStarted(self.solver.name, sha256(request.skill)))
            try:
                rollout = await self._tried(request)
            except asyncio.CancelledError:
                cancelled = _without_work(request, Status.CANCELLED, "cancelled", 0)
                self.record(events.AttemptEnded.of(cancelled))
                raise
        with in_attempt(request, rollout.retries):
            self.record(events.AttemptEnded.of(rollout))
        return rollout

    async def _tried(self, request: AttemptRequest) -> Rollout:
        # for a chat answer, the client has already retried, as `model.target.retries` says
        retries = 0 if self._chats else self.settings.retries
        failure = ""
        for number in range(retries + 1):
            if number:
                await self.sleep(backoff(number, None, self.draw))
            with in_attempt(request, number):
                try:
                    # in a task of its own: see `run_solver`
                    return replace(
                        await asyncio.create_task(self._attempt(request)), retries=number
                    )
                except (ModelUnavailable, ComputerFailure, EnvironmentFailure) as error:
                    failure = error.message
                    self.record(events.TryFailed(failure))
                    raise_if_cancelled()  # cleaning up failed
                    if isinstance(error, RequestTooLarge):
                        break
                except GraderError as error:  # of the tool that makes the attempts
                    return _without_work(request, Status.GRADER_ERROR, error.message, number)
        return _without_work(request, Status.ERROR, failure, number)

    def kept(self, request: AttemptRequest) -> bool:
        """Whether the work is stored already; a chat answer never is."""
        return self.cache is not None and self.cache.store.get(self.key(request)) is not None

    def key(self, request: AttemptRequest) -> str:
        if self.cache is None or self._chats:
            return ""
        limits = limits_of(request.task, self.settings.limits, self.pool)
        return self.cache.key(request, limits.model_dump(exclude={"grading_seconds"}))

    @property
    def _chats(self) -> bool:
        """Whether an attempt is one chat call, which its client retries and caches."""
        return isinstance(self.solver, ChatSolver)

    async def _attempt(self, request: AttemptRequest) -> Rollout:
        task, key, pool = request.task, self.key(request), self.pool
        limits = limits_of(task, self.settings.limits, self.pool)
        if self.cache and key and (known := self.cache.find(key, request.stage)) is not None:
            if (
                known.ending != "done"
                or not self.grading.keeps_computer(task)
                or self.cache.store.grade(key, self._scorer_hash(task, key)) is not None
            ):
                self._tell_end(known, key, stored=True)
                return await self._grade(request, known, key)
            # only its own computer, which is gone, could give it a grade
            self.cache.store.set_aside(key)
        needed = self.solver.needs_computer or task.computer is not None
        if not needed and (pool is None or pool.common is None):
            return await self._grade(request, await self._work(request, limits, key, None), key)
        if pool is None:
            raise UsageError("This run's tasks need a computer.", hint=NEEDS_COMPUTER)
        async with pool.prepared(task, limits.setup_seconds) as computer:
            attempt = await self._work(request, limits, key, computer)
            if self.grading.keeps_computer(task):
                return await self._grade(request, replace(attempt, computer=computer), key)
        return await self._grade(request, attempt, key)

    def _scorer_hash(self, task: Task, key: str) -> str:
        """What the store has the grades of this attempt under; empty if it keeps none."""
        if self.cache is None or not key or (facts := self.grading.facts(task)) is None:
            return ""
        return sha256_of(facts)

    async def _work(
        self, request: AttemptRequest, limits: AttemptLimits, key: str, computer: Computer | None
    ) -> Attempt:
        task, so_far = request.task, Transcript(request.task.messages)

        async def check_submission() -> str | None:
            submission = self.pool.block(task).submission if self.pool and computer else None
            if submission is None or computer is None:
                return None
            result = await computer.run(submission.command, timeout=limits.grading_seconds)
            if not result.exit_code and not result.timed_out:
                return None
            how = how_it_ended(result, limits.grading_seconds)
            return submission.message or f"There is no valid submission yet: the check {how}"

        async def grade_now() -> Score | None:
            attempt = await self._with_artifacts(so_far.attempt(), task, computer)
            return await self.grading.grade(task, redacted_work(attempt, self.redact))

        place = Workplace(
            *(request.stage, request.attempt, limits, computer),
            nudges=self.settings.nudges,
            check_submission=check_submission,
            grade_now=grade_now,
        )
        if not self._chats:
            await self.meter.reserve()
            self.meter.release()
        with self.meter.shared() as share:
            attempt = None
            try:
                attempt = await run_solver(
                    self.solver,
                    task,
                    request.skill,
                    place,
                    limits=None if self._chats else limits,
                    grade_every_step=self.settings.grade_every_step,
                    told=self.record,
                    so_far=so_far,
                )
            finally:
                used = (attempt or so_far).usage
                if not share.called_target and used != Usage():
                    self.meter.charge(Account(Role.TARGET, request.stage), used)
                    if attempt is None and self.cache is not None:
                        await self.cache.keep(f"failed {uuid4()}", Attempt((), ""), used)
        # it is paid for, so a stop of the run waits until it is stored
        attempt = await shielded(self._stored(attempt, task, computer, key, share.charged))
        self._tell_end(attempt, key, stored=False)
        return attempt

    async def _stored(
        self, attempt: Attempt, task: Task, computer: Computer | None, key: str, paid: Usage
    ) -> Attempt:
        """The attempt with its artifacts and without secrets, once the cache, if any, has it."""
        attempt = redacted_work(await self._with_artifacts(attempt, task, computer), self.redact)
        if self.cache is not None and key:
            await self.cache.keep(key, attempt, paid)
            self.cache.used(key)  # unlike a failed try, it can be handed to another machine
        return attempt

    async def _with_artifacts(
        self, attempt: Attempt, task: Task, computer: Computer | None
    ) -> Attempt:
        """Add the work's artifacts; if they cannot be exported, that is the agent's error."""
        if computer is None or self.pool is None or attempt.artifacts:
            return attempt
        kept = self.pool.block(task).artifacts
        try:
            return replace(attempt, artifacts=await computer.export(kept, max_bytes=ARTIFACT_BYTES))
        except FileRefused as error:
            why = f"What it left behind cannot be taken: {error.message}"
            return attempt if attempt.reason else replace(attempt, ending="agent_error", reason=why)

    def _tell_end(self, attempt: Attempt, key: str, *, stored: bool) -> None:
        last = attempt.messages[-1].content if attempt.messages else None
        response = None if attempt.response == last and not stored else attempt.response
        self.record(events.WorkEnded(response, key, stored, attempt.limit, len(attempt.artifacts)))

    async def _grade(self, request: AttemptRequest, attempt: Attempt, key: str) -> Rollout:
        fault = attempt.reason
        if attempt.ending == "done":
            try:
                score = await self._score(request.task, attempt, key)
            except (GraderError, ModelUnavailable, ModelRefusal) as failure:
                fault = failure.message
            else:
                status = Status.SCORED if attempt.limit is None else Status.LIMIT
                shown = attempt.artifacts if request.stage in self.evidence else b""
                return replace(_rollout(request, attempt, status, score), artifacts=shown)
        score = Score(0.0, 0.0, fault, "" if attempt.ending == "refused" else attempt.response)
        return _rollout(request, attempt, _UNGRADED[attempt.ending], score)

    async def _score(self, task: Task, attempt: Attempt, key: str) -> Score:
        scorer = self._scorer_hash(task, key)
        if self.cache and scorer and (known := self.cache.store.grade(key, scorer)) is not None:
            return known
        for number in range(1, self.settings.retries + 2):
            try:
                # in a task of its own, too: graders can be users' code
                score = await asyncio.create_task(self.grading.grade(task, attempt))
                break
            except GraderError as failure:
                last = number > self.settings.retries
                if last or not isinstance(failure.__cause__, ComputerFailure):
                    raise
                self.record(events.TryFailed(failure.message))
            finally:
                raise_if_cancelled()  # whatever the grader made of it
            await self.sleep(backoff(number, None, self.draw))
        if self.cache is not None and scorer:
            self.cache.store.put_grade(key, scorer, score)
        return score


def _without_work(request: AttemptRequest, status: Status, reason: str, retries: int) -> Rollout:
    nothing = Attempt(request.task.messages, "")
    return replace(_rollout(request, nothing, status, Score(0.0, 0.0, reason, "")), retries=retries)


def _rollout(request: AttemptRequest, attempt: Attempt, status: Status, score: Score) -> Rollout:
    return Rollout(
        *(request.task.id, status, score.hard, score.soft),
        reason=well_formed(score.reason),
        answer=well_formed(score.answer),
        messages=attempt.messages,
        task_type=request.task.task_type,
        n_turns=attempt.n_turns,
        attempt=request.attempt,
        trace=attempt.trace,
        limit=attempt.limit,
        usage=attempt.usage,
        progress=attempt.progress,
    )


def redacted_work(attempt: Attempt, redact: Redact) -> Attempt:
    """Redact secrets before grading, so that a stored attempt gets the same grade."""
    if redact is unchanged:
        return attempt
    return replace(
        attempt,
        messages=tuple(redacted_message(one, redact) for one in attempt.messages),
        response=redact(attempt.response),
        trace=redact(attempt.trace),
        artifacts=redacted_tar(attempt.artifacts, redact),
        reason=redact(attempt.reason),
    )


def redacted_tar(archive: bytes, redact: Redact) -> bytes:
    """The tar with secrets removed from its files' contents; unchanged if there are none."""

    def redacted(content: bytes) -> bytes:  # bytes that are not UTF-8 pass unchanged
        return redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    if not archive or redacted(archive) == archive:
        return archive
    return pack(replace(one, content=redacted(one.content)) for one in unpack(archive))

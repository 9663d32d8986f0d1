"""Shared parts of the bridges to other tools' tasks: the worker, access to models, grading."""

import asyncio
import hmac
import json
import secrets
from abc import abstractmethod
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from aiohttp import web

from skillopt_ci.computer.archive import Member, pack, unpack
from skillopt_ci.config.base import Section
from skillopt_ci.environments.api import read_options, require
from skillopt_ci.errors import EnvironmentFailure, FileRefused
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.chat_server import (
    BadRequestError,
    error_response,
    listening,
    read_body,
    reply_body,
)
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, ModelRefusal, Role, Usage
from skillopt_ci.program import visible_environ
from skillopt_ci.rollout.environment import Environment, Parts
from skillopt_ci.rollout.limits import TRACKER, LimitReached
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import Asked, Attempt, Limit, ModelSaid, Nudged, Step, ToolUsed
from skillopt_ci.scorers.base import GraderError, Score, scored
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task
from skillopt_ci.worker import Worker

#: The model names that a worker may request.
MODELS = {"target": Role.TARGET, "judge": Role.JUDGE, "optimizer": Role.OPTIMIZER}
#: Independent answers to one prompt get attempt numbers this far apart, so that none collides.
_SAMPLES_APART = 1_000_000


def read_request(body: bytes) -> tuple[ChatRequest, int]:
    """A request to one of ``MODELS``, and the number of answers wanted. Raises BadRequestError."""
    model, request, choices = read_body(body)
    if model not in MODELS:
        raise BadRequestError(f"there is no model {model!r}, only {', '.join(MODELS)}")
    return replace(request, role=MODELS[model]), choices


#: Does a job, which names a base URL of models and a token as API key; returns a JSON object.
Work = Callable[[Mapping[str, object]], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(slots=True)
class Conversation:
    """The model calls of one attempt; ``messages`` are the target's so far.

    ``asked`` counts its calls, ``turns`` those answered; ``grading``: the tool grades the answer.
    """

    client: ChatClient
    stage: str
    attempt: int
    #: How many calls to refuse at a limit, so that the tool can grade the work so far.
    refusals: int = 0
    roles: Collection[Role] = (Role.TARGET, Role.JUDGE)
    messages: tuple[Message, ...] = ()
    turns: int = 0
    asked: int = 0
    grading: bool = False
    limit: Limit | None = None
    result: dict[str, Any] = field(default_factory=dict)
    _asked: Counter[str] = field(default_factory=Counter)

    async def hold(self, work: Work, job: Mapping[str, object]) -> AsyncGenerator[Step, None]:
        """Have ``job`` done, serve models to it and yield steps; raises any error of both."""
        events: asyncio.Queue[Step | asyncio.Task[Any]] = asyncio.Queue()
        running: set[asyncio.Task[Any]] = set()
        token = secrets.token_urlsafe(24)

        def start(job: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
            task = asyncio.create_task(job)
            task.add_done_callback(events.put_nowait)
            running.add(task)
            return task

        async def respond(request: web.Request) -> web.Response:
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(key.encode(), token.encode()):
                return error_response(HTTPStatus.UNAUTHORIZED, "this line is not open to you")
            if request.path == "/v1/grading":
                self.grading = True
                return web.Response()
            if request.path != "/v1/chat/completions":
                return error_response(HTTPStatus.NOT_FOUND, f"there is no {request.path}")
            try:
                asked, choices = read_request(await request.read())
            except BadRequestError as error:
                return error_response(HTTPStatus.BAD_REQUEST, str(error))
            answering: asyncio.Task[web.Response] = start(
                self._answer(asked, choices, events.put_nowait)
            )
            await asyncio.wait({answering})
            if answering.cancelled() or answering.exception():
                await asyncio.Event().wait()  # never answer: the error ends the attempt
            return answering.result()

        async with listening(respond) as url:
            try:
                working = start(work({**job, "base_url": url, "token": token}))
                while True:
                    event = await events.get()
                    if not isinstance(event, asyncio.Task):
                        yield event
                        continue
                    running.discard(event)
                    result = event.result()
                    if event is working:
                        self.result = result
                        return
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    @property
    def works(self) -> bool:
        """Whether the target is at work: it is answering, or a tool that it called is running."""
        return self.turns < self.asked or (
            not self.grading and any(one.tool_calls for one in self.messages[-1:])
        )

    async def _answer(
        self, asked: ChatRequest, choices: int, tell: Callable[[Step], None]
    ) -> web.Response:
        if asked.role not in self.roles:
            raise EnvironmentFailure(f"the model {asked.role.value!r} is not lent for {self.stage}")
        # the worker's protocol has no room for what providers want back with a call
        states = {
            key: call.state
            for n, one in enumerate(self.messages)
            for call in one.tool_calls
            for key in ((n, call.id), call.id)  # some servers use an id in each turn
        }
        given = (
            replace(
                one,
                tool_calls=tuple(
                    replace(c, state=states.get((n, c.id), states.get(c.id, "")))
                    for c in one.tool_calls
                ),
            )
            for n, one in enumerate(asked.messages)
        )
        asked = replace(asked, messages=tuple(given))
        is_work = asked.role is Role.TARGET and not self.grading  # a scorer may ask the target
        self.asked += is_work
        if self.grading:
            TRACKER.set(None)  # for this call only
        stage = "judge" if asked.role is Role.JUDGE else self.stage
        content, calls = repr(asked), []
        for _ in range(choices):
            attempt = self.attempt + self._asked[content] * _SAMPLES_APART
            self._asked[content] += 1
            calls.append(self.client.complete(replace(asked, stage=stage, attempt=attempt)))
        try:
            replies: Sequence[ChatReply] = await asyncio.gather(*calls)
        except LimitReached as reached:
            if not self.refusals:
                raise
            self.refusals -= 1
            self.asked -= 1
            self.limit = reached.limit
            return error_response(HTTPStatus.FORBIDDEN, f"the limit of {reached.limit} is reached")
        except ModelRefusal as refusal:
            if is_work:
                raise
            if asked.role is not Role.OPTIMIZER:
                # Not a failure of the work: that is there, only its grade is missing.
                raise EnvironmentFailure(
                    f"the {asked.role.value} refused to grade: {refusal.message}"
                ) from refusal
            # A finish reason of the protocol, so that only this question fails, not all the others.
            replies = [ChatReply("", "content_filter", "optimizer", Usage())] * choices
        if is_work:
            said = Message("assistant", replies[0].text, tool_calls=replies[0].tool_calls)
            usage = sum((reply.usage for reply in replies), Usage())
            for step in (*_since(self.messages, asked.messages), ModelSaid(said, usage)):
                tell(step)
            self.messages = (*asked.messages, said)
            self.turns += 1
        return web.json_response(reply_body(replies))


def _since(known: tuple[Message, ...], now: tuple[Message, ...]) -> Iterator[Step]:
    if not known:
        yield Asked(now)
        return
    if list(map(_gist, now[: len(known)])) != list(map(_gist, known)):
        return  # another conversation of the same attempt
    calls = {call.id: call for message in known for call in message.tool_calls}
    for message in now[len(known) :]:
        if message.role == "tool":
            call = calls.get(message.tool_call_id, ToolCall(message.tool_call_id, "", ""))
            yield ToolUsed(call, message.content)
        elif message.role == "user":
            yield Nudged(message.content)


def _gist(message: Message) -> tuple[str, str, tuple[str, ...]]:
    return message.role, message.content.strip(), tuple(call.id for call in message.tool_calls)


@dataclass(frozen=True, slots=True)
class BridgeSolver:
    name: str
    facts: Mapping[str, object]
    environment: "BridgeEnvironment[Any]"
    client: ChatClient
    #: The other tool brings its own.
    needs_computer: bool = False

    def identity(self) -> Mapping[str, object]:
        return self.facts

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        talk = Conversation(self.client, place.stage, place.attempt, self.environment.refusals)
        job = {**self.environment.job(task, place), "skill": as_read(skill)}
        try:
            async with aclosing(talk.hold(self.environment.worker.attempt, job)) as steps:
                async for step in steps:
                    yield step
        except asyncio.CancelledError:
            if not talk.works:
                end = "the answer was graded" if talk.asked else "the model was asked"
                place.hindered.append(f"{self.name}: the time was over before {end}")
            raise
        result = talk.result
        if failure := result.get("failure"):
            # work may fail because a limit refused it answers, but a scorer has them all
            cut = None if result.get("scoring") else talk.limit
            raise LimitReached(cut) if cut else EnvironmentFailure(str(failure))
        # half of a surrogate pair, in an answer, cannot be encoded
        left = json.dumps(result, sort_keys=True, ensure_ascii=False).encode(errors="replace")
        yield Attempt(
            messages=talk.messages,
            response=str(result.get("response", "")),
            n_turns=max(1, talk.turns),
            limit=talk.limit or (Limit(result["limit"]) if result.get("limit") else None),
            artifacts=pack([Member("result.json", left)]),
        )


class BridgeOptions(Section):
    env: tuple[str, ...] = ()
    """Names of environment variables that its code may see besides PATH, HOME and LANG."""


Options = TypeVar("Options", bound=BridgeOptions)


class BridgeEnvironment(Environment, Generic[Options]):
    """Another tool's tasks and attempts, in a worker that starts at first use."""

    kind: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    shape: type[Options]
    refusals: ClassVar[int] = 0
    code: Literal["confined"] = "confined"

    def __init__(
        self, options: Mapping[str, object], root: Path, environ: Mapping[str, str]
    ) -> None:
        require(self.package, self.kind)
        super().__init__(options, root)
        self._read = read_options(self.shape, options)
        self._environ = visible_environ(environ, self._read.env)
        self._worker: Worker | None = None

    @abstractmethod
    def job(self, task: Task, place: Workplace) -> Mapping[str, object]:
        """The worker's job for ``task``."""

    @abstractmethod
    def score(self, result: Mapping[str, Any]) -> Score:
        """The score in a result. Raises GraderError if there is none."""

    @property
    def worker(self) -> Worker:
        """The worker. Raises UsageError if the other tool cannot be loaded."""
        if self._worker is not None and self._worker.gone:
            self.close()
        if self._worker is None:
            self._worker = Worker(
                self.module, self.options, self.root, self._environ, f"environment {self.kind}"
            )
        return self._worker

    def solver(self, parts: Parts) -> Solver:
        return BridgeSolver(self.kind, self.identity(), self, parts.client)

    async def grade(self, _task: Task, attempt: Attempt, _parts: Parts) -> Score:
        if attempt.limit and not attempt.artifacts:
            return scored(
                False, f"ended by the limit of {attempt.limit}, ungraded", attempt.response
            )
        return self.score(unpacked(attempt.artifacts))

    def identity(self) -> Mapping[str, object]:
        return {**super().identity(), **self.worker.facts["identity"]}

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None


def told_task(told: Mapping[str, Any]) -> Task:
    return Task(
        id=told["id"],
        messages=tuple(Message(one["role"], one["content"]) for one in told["messages"]),
        references=tuple(told["references"]),
        task_type=told["type"],
        metadata=told["metadata"],
        reference_text=told.get("reference_text", ""),
    )


def unpacked(artifacts: bytes) -> dict[str, Any]:
    """The result that an attempt left behind. Raises GraderError if there is none."""
    try:
        (member,) = unpack(artifacts)
        found: dict[str, Any] = json.loads(member.content)
    except (FileRefused, ValueError, RecursionError) as error:
        raise GraderError(f"the attempt left no readable result: {error}") from error
    return found


def checked_share(value: object, what: str) -> float:
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    raise GraderError(f"{what} is {value!r}, expected a score from 0 to 1")

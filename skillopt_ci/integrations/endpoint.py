"""The run's models behind OpenAI's chat protocol, on the loopback interface, for one attempt."""

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from aiohttp import web

from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.chat_server import (
    BadRequestError,
    error_response,
    listening,
    read_body,
    reply_body,
)
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, ModelRefusal, Role, Usage
from skillopt_ci.rollout.types import Asked, ModelSaid, Nudged, Step, ToolUsed

#: The models that may be asked for: the one under training, the one that grades, the analysts'.
MODELS = {"target": Role.TARGET, "judge": Role.JUDGE, "optimizer": Role.OPTIMIZER}
#: Independent answers to one prompt within an attempt are told apart by this distance, so that
#: none has the number of another attempt.
_SAMPLES_APART = 1_000_000


def read_request(body: bytes) -> tuple[ChatRequest, int]:
    """Read a body that asks one of ``MODELS``, and how many independent answers it asks for.

    Raises :class:`BadRequestError`.
    """
    model, request, choices = read_body(body)
    if model not in MODELS:
        raise BadRequestError(f"there is no model {model!r}, only {', '.join(MODELS)}")
    return replace(request, role=MODELS[model]), choices


#: A job that asks models at a base URL, with a token as key, and returns a result in JSON.
Work = Callable[[str, str], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(slots=True)
class Conversation:
    """Answers the calls of one attempt through ``client``; ``stage`` and ``attempt`` as there.

    Only models of these ``roles`` are lent. ``messages`` is the target's conversation so far,
    ``usage`` what its answers consumed.
    """

    client: ChatClient
    stage: str
    attempt: int
    roles: Collection[Role] = (Role.TARGET, Role.JUDGE)
    messages: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    result: dict[str, Any] = field(default_factory=dict)
    _asked: Counter[str] = field(default_factory=Counter)

    async def hold(self, work: Work) -> AsyncGenerator[Step, None]:
        """Do ``work``, serving models to it meanwhile, and tell what they are asked and say.

        The result of ``work`` is in ``result`` afterwards. Raises what the models or ``work``
        raise, at once: nobody else's retries hide it.
        """
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
            if request.path != "/v1/chat/completions":
                return error_response(HTTPStatus.NOT_FOUND, f"there is no {request.path}")
            try:
                asked, choices = read_request(await request.read())
            except BadRequestError as error:
                return error_response(HTTPStatus.BAD_REQUEST, str(error))
            answering = start(self._answer(asked, choices, events.put_nowait))
            await asyncio.wait({answering})
            if answering.cancelled() or answering.exception():
                await asyncio.Event().wait()  # no answer, but the end of the attempt
            return web.json_response(answering.result())

        async with listening(respond) as url:
            try:
                working = start(work(url, token))
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

    async def _answer(
        self, asked: ChatRequest, choices: int, tell: Callable[[Step], None]
    ) -> dict[str, object]:
        if asked.role not in self.roles:
            raise EnvironmentFailure(f"the model {asked.role.value!r} is not lent for {self.stage}")
        stage = "judge" if asked.role is Role.JUDGE else self.stage
        content, calls = repr(asked), []
        for _ in range(choices):
            attempt = self.attempt + self._asked[content] * _SAMPLES_APART
            self._asked[content] += 1
            calls.append(self.client.complete(replace(asked, stage=stage, attempt=attempt)))
        try:
            replies: Sequence[ChatReply] = await asyncio.gather(*calls)
        except ModelRefusal as refusal:
            if asked.role is Role.TARGET:
                raise
            if asked.role is Role.JUDGE:
                # not the target's outcome: its answer exists, only the grade does not
                raise EnvironmentFailure(f"the judge refused: {refusal.message}") from refusal
            # the protocol's own word for it; it costs the question, not all the others
            replies = [ChatReply("", "content_filter", "optimizer", Usage())] * choices
        if asked.role is Role.TARGET:
            said = Message("assistant", replies[0].text, tool_calls=replies[0].tool_calls)
            usage = sum((reply.usage for reply in replies), Usage())
            for step in (*_since(self.messages, asked.messages), ModelSaid(said, usage)):
                tell(step)
            self.messages = (*asked.messages, said)
            self.usage += usage
            self.turns += 1
        return reply_body(replies)


def _since(known: tuple[Message, ...], now: tuple[Message, ...]) -> Iterator[Step]:
    """What happened between two questions to the target, as far as messages tell."""
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
    """What two copies of a message share, however tool arguments were written out again."""
    return message.role, message.content.strip(), tuple(call.id for call in message.tool_calls)

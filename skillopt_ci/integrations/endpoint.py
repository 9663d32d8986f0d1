"""The run's models behind OpenAI's chat protocol, on the loopback interface, for one attempt."""

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, get_args

from aiohttp import web
from pydantic import AliasPath, BaseModel, Field, ValidationError

from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.messages import ChatRole, Image, Message, ToolCall
from skillopt_ci.model.openai_provider import as_sent
from skillopt_ci.model.types import (
    ChatClient,
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ReplySchema,
    Role,
    Tool,
    Usage,
)
from skillopt_ci.rollout.types import Asked, ModelSaid, Nudged, Step, ToolUsed

_ROLES: dict[str, ChatRole] = {role: role for role in get_args(ChatRole)} | {"developer": "system"}
#: The models that may be asked for: the one under training, the one that grades, the analysts'.
MODELS = {"target": Role.TARGET, "judge": Role.JUDGE, "optimizer": Role.OPTIMIZER}
#: Longer bodies are refused: no conversation is that long.
_MOST_BYTES = 256 * 1024 * 1024
#: When the attempt is over nobody waits for answers; to aiohttp, 0 would mean for ever.
_SHUTDOWN_SECONDS = 0.01
#: Independent answers to one prompt within an attempt are told apart by this distance, so that
#: none has the number of another attempt.
_SAMPLES_APART = 1_000_000


class BadRequestError(ValueError):
    """A body that cannot be answered; the message says why."""


# What is not named here (temperature, stop, …) is for the configuration to say.


class _Call(BaseModel):
    id: str = ""
    name: str = Field(validation_alias=AliasPath("function", "name"))
    arguments: str = Field("", validation_alias=AliasPath("function", "arguments"))


class _Message(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Tool(BaseModel):
    name: str = Field(validation_alias=AliasPath("function", "name"))
    description: str = Field("", validation_alias=AliasPath("function", "description"))
    parameters: dict[str, Any] = Field({}, validation_alias=AliasPath("function", "parameters"))


class _ResponseFormat(BaseModel):
    json_schema: dict[str, Any] | None = None


class _Body(BaseModel):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    response_format: _ResponseFormat | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    stream: bool | None = None


def read_request(body: bytes) -> tuple[ChatRequest, int]:
    """Read a chat-completions body, and how many independent answers it asks for.

    Raises :class:`BadRequestError`.
    """
    try:
        request = _Body.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadRequestError(f"not a chat completion: {where} {first['msg']}") from None
    if request.stream:
        raise BadRequestError("answers are not streamed here; ask without `stream`")
    if request.model not in MODELS:
        raise BadRequestError(f"there is no model {request.model!r}, only {', '.join(MODELS)}")
    messages = [_message(message) for message in request.messages]
    # many servers accept only one system message, at the beginning
    count = next((n for n, one in enumerate(messages) if one.role != "system"), len(messages))
    if count:
        opening = "\n\n".join(message.content for message in messages[:count])
        messages[:count] = [Message("system", opening)]
    schema = (request.response_format and request.response_format.json_schema) or {}
    chat_request = ChatRequest(
        role=MODELS[request.model],
        stage="",
        messages=tuple(messages),
        max_output_tokens=request.max_completion_tokens or request.max_tokens,
        tools=tuple(
            Tool(tool.name, tool.description, tool.parameters) for tool in request.tools or ()
        ),
        reply_schema=ReplySchema(str(schema.get("name", "reply")), schema["schema"])
        if "schema" in schema
        else None,
    )
    return chat_request, request.n or 1


def _message(message: _Message) -> Message:
    if message.role not in _ROLES:
        raise BadRequestError(f"{message.role!r} is not a role: {', '.join(_ROLES)}")
    images, parts = [], message.content
    if not isinstance(parts, list):
        parts = [{"text": parts or ""}]
    for part in parts:
        if part.get("type") == "image_url":
            url = str(part["image_url"].get("url", ""))
            head, comma, data = url.partition(";base64,")
            if not comma or not head.startswith("data:"):
                raise BadRequestError("an image must be a data: URL in base64")
            images.append(Image(head.removeprefix("data:"), data))
    return Message(
        _ROLES[message.role],
        "".join(str(part.get("text", "")) for part in parts),
        images=tuple(images),
        tool_calls=tuple(
            ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls or ()
        ),
        tool_call_id=message.tool_call_id,
    )


def reply_body(replies: Sequence[ChatReply]) -> dict[str, object]:
    """``replies`` as the choices of one completion."""
    usage = sum((reply.usage for reply in replies), Usage())
    choices = []
    for index, reply in enumerate(replies):
        calls = tuple(replace(call, state="") for call in reply.tool_calls)
        message = as_sent(Message("assistant", reply.text, tool_calls=calls))
        choices.append({"index": index, "message": message, "finish_reason": reply.finish_reason})
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 0,
        "model": replies[0].model,
        "choices": choices,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }


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
                return _refusal(HTTPStatus.UNAUTHORIZED, "this line is not open to you")
            if request.path != "/v1/chat/completions":
                return _refusal(HTTPStatus.NOT_FOUND, f"there is no {request.path}")
            try:
                asked, choices = read_request(await request.read())
            except BadRequestError as error:
                return _refusal(HTTPStatus.BAD_REQUEST, str(error))
            answering = start(self._answer(asked, choices, events.put_nowait))
            await asyncio.wait({answering})
            if answering.cancelled() or answering.exception():
                await asyncio.Event().wait()  # no answer, but the end of the attempt
            return web.json_response(answering.result())

        application = web.Application(client_max_size=_MOST_BYTES)
        application.router.add_route("*", "/{path:.*}", respond)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            working = start(work(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", token))
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
            await runner.cleanup()

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


def _refusal(status: HTTPStatus, message: str) -> web.Response:
    error = {"message": message, "type": "skillopt_ci", "code": None}
    return web.json_response({"error": error}, status=status)


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

"""The HTTP server on the loopback interface, and the lines on which programs call it."""

import asyncio
import hmac
import json
import secrets
import threading
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.messages import ChatRole, Image, Message, ToolCall
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
from skillopt_ci.rollout import types
from skillopt_ci.rollout.types import ModelSaid, Nudged, Step, ToolUsed

# OpenAI's chat protocol from the server's side: a request body read, a reply body written.

_ROLES: Mapping[str, ChatRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
#: The models that may be asked for: the one under training, the one that grades, the analysts'.
MODELS: Mapping[str, Role] = {
    "target": Role.TARGET,
    "judge": Role.JUDGE,
    "optimizer": Role.OPTIMIZER,
}


class BadRequestError(ValueError):
    """A body that cannot be answered; the message says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program asks; ``choices`` is how many independent answers it wants."""

    role: Role
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    reply_schema: ReplySchema | None
    max_output_tokens: int | None
    choices: int


class _Loose(BaseModel):
    """What is not named here (temperature, stop, …) is the configuration's business."""

    model_config = ConfigDict(extra="ignore")


class _Function(_Loose):
    name: str
    arguments: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}


class _Call(_Loose):
    id: str = ""
    function: _Function


class _Message(_Loose):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Tool(_Loose):
    function: _Function


class _Body(_Loose):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    response_format: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    stream: bool | None = None


def read_request(body: bytes) -> Asked:
    """Read a chat-completions body; raises :class:`BadRequestError`."""
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
    return Asked(
        role=MODELS[request.model],
        messages=_one_system_message([_message(one) for one in request.messages]),
        tools=tuple(_tool(one.function) for one in request.tools or ()),
        reply_schema=_schema(request.response_format),
        max_output_tokens=request.max_completion_tokens or request.max_tokens,
        choices=request.n or 1,
    )


def _message(told: _Message) -> Message:
    if told.role not in _ROLES:
        raise BadRequestError(f"{told.role!r} is not a role: {', '.join(_ROLES)}")
    parts = told.content if isinstance(told.content, list) else [{"text": told.content or ""}]
    return Message(
        _ROLES[told.role],
        "".join(str(part.get("text", "")) for part in parts),
        images=tuple(_image(part) for part in parts if part.get("type") == "image_url"),
        tool_calls=tuple(
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in told.tool_calls or ()
        ),
        tool_call_id=told.tool_call_id,
    )


def _image(part: Mapping[str, Any]) -> Image:
    url = str(part["image_url"].get("url", ""))
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:"):
        raise BadRequestError("an image must be a data: URL in base64")
    return Image(head.removeprefix("data:"), data)


def _one_system_message(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Join the system messages at the beginning: many servers accept only one."""
    count = next((n for n, one in enumerate(messages) if one.role != "system"), len(messages))
    opening = "\n\n".join(message.content for message in messages[:count])
    return (*((Message("system", opening),) if count else ()), *messages[count:])


def _tool(function: _Function) -> Tool:
    return Tool(function.name, function.description, function.parameters)


def _schema(wanted: Mapping[str, Any] | None) -> ReplySchema | None:
    described = (wanted or {}).get("json_schema")
    if not isinstance(described, dict) or "schema" not in described:
        return None
    return ReplySchema(str(described.get("name", "reply")), described["schema"])


def reply_body(replies: Sequence[ChatReply]) -> bytes:
    """Write ``replies`` as the choices of one completion."""
    usage = [reply.usage for reply in replies]
    prompt = sum(one.prompt_tokens for one in usage)
    completion = sum(one.completion_tokens for one in usage)
    return _encoded(
        {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 0,
            "model": replies[0].model,
            "choices": [_choice(index, reply) for index, reply in enumerate(replies)],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }
    )


def _choice(index: int, reply: ChatReply) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.tool_calls
        ]
    return {"index": index, "message": message, "finish_reason": reply.finish_reason}


def error_body(message: str) -> bytes:
    """Write an error as the protocol does."""
    return _encoded({"error": {"message": message, "type": "skillopt_ci", "code": None}})


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


#: How soon the server's thread notices that it is to stop.
_POLL_SECONDS = 0.05
#: Bodies beyond this are refused: no conversation is that long.
_MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """A question that waits; ``answer`` takes the body of the reply."""

    asked: Asked
    answer: Future[bytes]


@dataclass(frozen=True, slots=True)
class Line:
    """One attempt's way to the models: who has its ``token`` is heard by ``hear``."""

    token: str
    hear: Callable[[Call], None]
    waiting: list[Future[bytes]] = field(default_factory=list)


class Endpoint:
    """Serves in a thread of its own until it is closed, whatever event loops come and go."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._server = _Server(self._lines)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        """The URL that programs are configured with."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def open_line(self, hear: Callable[[Call], None]) -> Line:
        """Open a line for one attempt; calls on it are put before ``hear`` in the present loop."""
        loop = asyncio.get_running_loop()
        line = Line(secrets.token_urlsafe(24), lambda call: _tell(loop, hear, call))
        self._lines[line.token] = line
        return line

    def hang_up(self, line: Line) -> None:
        """Close a line; whoever still waits on it is turned away."""
        del self._lines[line.token]
        for answer in tuple(line.waiting):
            answer.cancel()

    def close(self) -> None:
        """Stop serving."""
        for line in list(self._lines.values()):
            self.hang_up(line)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _tell(loop: asyncio.AbstractEventLoop, hear: Callable[[Call], None], call: Call) -> None:
    try:
        loop.call_soon_threadsafe(hear, call)
    except RuntimeError:  # the loop is closed: nobody is there any more
        call.answer.cancel()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, lines: dict[str, Line]) -> None:
        self.lines = lines
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a program that was killed leaves broken connections behind."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > _MOST_BYTES:
            self.close_connection = True
            return self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error_body("too long"))
        # read in any case: what stays on the connection would pass for the next request
        body = self.rfile.read(length)
        line = self._line()
        if line is None:
            return self._send(HTTPStatus.UNAUTHORIZED, error_body("this line is not open"))
        if self.path != "/v1/chat/completions":
            return self._send(HTTPStatus.NOT_FOUND, error_body(f"there is no {self.path}"))
        try:
            asked = read_request(body)
        except BadRequestError as error:
            return self._send(HTTPStatus.BAD_REQUEST, error_body(str(error)))
        return self._answer(line, Call(asked, Future()))

    def _answer(self, line: Line, call: Call) -> None:
        line.waiting.append(call.answer)
        if line.token in self.server.lines:
            line.hear(call)
        else:  # hung up in this very moment
            call.answer.cancel()
        try:
            body = call.answer.result()
        except BaseException:  # noqa: BLE001  # cancelled: the attempt is over
            self.close_connection = True
            return
        finally:
            line.waiting.remove(call.answer)
        self._send(HTTPStatus.OK, body)

    def _line(self) -> Line | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        lines = tuple(self.server.lines.values())
        return next((one for one in lines if hmac.compare_digest(one.token.encode(), token)), None)

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep standard error quiet."""


# An attempt's talk with the models, overheard on its line and told in steps.

#: Independent answers to one prompt within an attempt are told apart by this distance, so that
#: none has the number of another attempt.
_SAMPLES_APART = 1_000_000

#: A job that is given the token of a line and returns a result in JSON.
Work = Callable[[str], Coroutine[Any, Any, dict[str, Any]]]


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
    result: dict[str, Any] | None = None
    _asked: Counter[str] = field(default_factory=Counter)

    async def hold(self, endpoint: Endpoint, work: Work) -> AsyncIterator[Step]:
        """Let ``work`` go on, given the token of a line, and tell what is said meanwhile.

        The result of ``work`` is in ``result`` afterwards. Raises what the models or ``work``
        raise, at once: nobody else's retries hide it.
        """
        events: asyncio.Queue[Call | asyncio.Task[Any]] = asyncio.Queue()
        line = endpoint.open_line(events.put_nowait)
        running: set[asyncio.Task[Any]] = set()

        def start(job: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
            task = asyncio.create_task(job)
            task.add_done_callback(events.put_nowait)
            running.add(task)
            return task

        working = start(work(line.token))
        try:
            while True:
                event = await events.get()
                if isinstance(event, Call):
                    start(self._answer(event))
                    continue
                running.discard(event)
                found = event.result()
                if event is working:
                    self.result = found
                    return
                for step in found:
                    yield step
        finally:
            endpoint.hang_up(line)
            await _end(running)

    async def _answer(self, call: Call) -> Sequence[Step]:
        asked = call.asked
        if asked.role not in self.roles:
            raise EnvironmentFailure(f"the model {asked.role.value!r} is not lent for {self.stage}")
        replies = await self._replies(asked)
        with suppress(asyncio.InvalidStateError):  # nobody waits any more
            call.answer.set_result(reply_body(replies))
        if asked.role is not Role.TARGET:
            return ()
        return tuple(self._note(asked, replies))

    async def _replies(self, asked: Asked) -> Sequence[ChatReply]:
        try:
            return await asyncio.gather(*(self._reply(asked) for _ in range(asked.choices)))
        except ModelRefusal as refusal:
            if asked.role is Role.TARGET:
                raise
            if asked.role is Role.OPTIMIZER:
                # the protocol's own word for it; it costs the question, not all the others
                return [ChatReply("", "content_filter", "optimizer", Usage())] * asked.choices
            # not the target's outcome: its answer exists, only the grade does not
            raise EnvironmentFailure(f"the judge refused: {refusal.message}") from refusal

    def _reply(self, asked: Asked) -> Awaitable[ChatReply]:
        same = repr(replace(asked, choices=1))
        sample = self._asked[same]
        self._asked[same] += 1
        return self.client.complete(
            ChatRequest(
                asked.role,
                "judge" if asked.role is Role.JUDGE else self.stage,
                asked.messages,
                asked.max_output_tokens,
                self.attempt + sample * _SAMPLES_APART,
                asked.tools,
                asked.reply_schema,
            )
        )

    def _note(self, asked: Asked, replies: Sequence[ChatReply]) -> Iterator[Step]:
        reply = replies[0]
        said = Message("assistant", reply.text, tool_calls=reply.tool_calls)
        usage = sum((one.usage for one in replies), Usage())
        yield from _since(self.messages, asked.messages)
        yield ModelSaid(said, usage)
        self.messages = (*asked.messages, said)
        self.usage += usage
        self.turns += 1


def _since(known: tuple[Message, ...], now: tuple[Message, ...]) -> Iterator[Step]:
    """What happened between two questions to the target, as far as messages tell."""
    if not known:
        yield types.Asked(now)
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


async def _end(running: set[asyncio.Task[Any]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)

"""An attempt's talk with the models, overheard on its line and told in steps."""

import asyncio
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from skillopt_ci.environments.loopback.endpoint import Call, Endpoint
from skillopt_ci.environments.loopback.wire import Asked, reply_body
from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, ModelRefusal, Role, Usage
from skillopt_ci.rollout import types
from skillopt_ci.rollout.types import ModelSaid, Nudged, Step, ToolUsed

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

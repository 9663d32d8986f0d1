"""A client whose prompts carry no secret out, and whose answers and errors bring none in."""

from dataclasses import dataclass, replace

from skillopt_ci.aio import Slots
from skillopt_ci.errors import SkilloptError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role
from skillopt_ci.redaction import Redact


class RedactingClient:
    """Takes the secrets out of what goes to ``inner`` and of all that comes from it.

    What it answers may be cached, recorded and shown to another model.
    """

    def __init__(self, inner: ChatClient, redact: Redact) -> None:
        self._inner = inner
        self._redact = redact

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; raises what ``inner`` raises, with its words redacted."""
        messages = tuple(redacted_message(one, self._redact) for one in request.messages)
        try:
            reply = await self._inner.complete(replace(request, messages=messages))
        except SkilloptError as error:
            error.message, error.hint = self._redact(error.message), self._redact(error.hint)
            error.args = (error.message,)
            raise
        return replace(
            reply,
            text=self._redact(reply.text),
            trace=self._redact(reply.trace),
            model=self._redact(reply.model),
            finish_reason=self._redact(reply.finish_reason),
            tool_calls=tuple(_redacted_call(one, self._redact) for one in reply.tool_calls),
        )


def redacted_message(message: Message, redact: Redact) -> Message:
    """``message`` without secrets in its text and its tool calls; pictures stay as they are."""
    calls = tuple(_redacted_call(call, redact) for call in message.tool_calls)
    return replace(message, content=redact(message.content), tool_calls=calls)


def _redacted_call(call: ToolCall, redact: Redact) -> ToolCall:
    return replace(call, arguments=redact(call.arguments))


# A client whose questions to the optimizer wait for a place, whatever stage asks them.


@dataclass(frozen=True, slots=True)
class ScheduledClient:
    """Hands on requests; those to the optimizer keep one of ``questions`` until they are answered.

    Attempts at tasks have places of their own, in which they make their calls.
    """

    inner: ChatClient
    questions: Slots

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``."""
        if request.role is not Role.OPTIMIZER:
            return await self.inner.complete(request)
        async with self.questions.slot():
            return await self.inner.complete(request)


# The judge model as scorers see it: a question in, a text out.


@dataclass(frozen=True, slots=True)
class ChatJudge:
    """The judge role of ``client``, in the shape that scorers ask for."""

    client: ChatClient

    async def __call__(self, prompt: str) -> str:
        """Answer ``prompt``; raises what :meth:`ChatClient.complete` raises."""
        request = ChatRequest(
            role=Role.JUDGE, stage="judge", messages=(Message(role="user", content=prompt),)
        )
        return (await self.client.complete(request)).text

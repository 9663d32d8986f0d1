"""A client whose prompts carry no secret out, and whose answers and errors bring none in."""

from dataclasses import replace

from skillopt_ci.errors import SkilloptError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest
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

"""Ask: put one question to the optimizer model, with one chance to repair an unusable reply."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from skillopt_ci.errors import SkilloptError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import (
    ChatClient,
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ModelUnavailable,
    ReplySchema,
    Role,
)
from skillopt_ci.progress import Note, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edits import Refuse, permit
from skillopt_ci.training.replies import WireError

MAX_OUTPUT_TOKENS = 16_384

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Lost:
    error: SkilloptError
    reply: str = ""


@dataclass(frozen=True, slots=True)
class OptimizerChat:
    """The optimizer model during one step, with the step buffer, reviewers' guidance and guard."""

    client: ChatClient
    prompts: Prompts
    observer: Observer
    step_buffer: str = ""
    meta_skill: str = ""
    reviewer_guidance: str = ""
    refuse: Refuse = permit

    async def ask(
        self,
        what: str,
        user: str,
        parse: Callable[[str], Answer],
        schema: ReplySchema | None = None,
        *,
        prompt: str,
        supplement: str = "",
        stage: str = "",
        tokens: int = MAX_OUTPUT_TOKENS,
        vital: bool = False,
        sample: int = 0,
    ) -> Answer | Lost:
        """Send ``user`` to the optimizer and return its reply, parsed by ``parse``.

        The system prompt joins ``prompt`` and ``supplement``; ``stage`` defaults to the name
        ``prompt``; each ``sample`` is an independent answer. If ``parse`` raises
        :class:`WireError`, the model sees its reply and the error and may try once more. A second
        bad reply, a refusal or an outage is noted and returned as :class:`Lost`, except that a
        ``vital`` question raises the outage. A wrong setup or an exhausted budget is always raised.
        """
        system = "\n\n".join(self.prompts.texts[name] for name in (prompt, supplement) if name)
        messages = (Message("system", system), Message("user", user))
        request = ChatRequest(
            Role.OPTIMIZER, stage or prompt, messages, tokens, sample, reply_schema=schema
        )
        reply: ChatReply | None = None
        try:
            reply = await self.client.complete(request)
            try:
                return parse(reply.text)
            except WireError as error:
                request = _with_complaint(request, reply, error)
            reply = await self.client.complete(request)
            return parse(reply.text)
        except (WireError, ModelRefusal, ModelUnavailable) as error:
            if isinstance(error, WireError) and reply and reply.finish_reason == "length":
                error.message = f"It was cut off at the token limit. {error.message}"
            self.observer(Note(f"{what}: no usable answer. {error.message}", level="warning"))
            if vital and isinstance(error, ModelUnavailable):
                raise
            return Lost(error, reply.text if reply else "")


def _with_complaint(request: ChatRequest, reply: ChatReply, error: WireError) -> ChatRequest:
    cut_off, limit = "", request.max_output_tokens
    if reply.finish_reason == "length":
        cut_off = " It was cut off at the token limit: be briefer."
        # room for thoughts; Claude Opus 4 gives no more
        limit = limit and max(limit, min(2 * limit, 32_000))
    complaint = (
        f"Your reply could not be used.{cut_off} {error.message}\n\n"
        "Reply again, with the complete JSON object and nothing else."
    )
    # Some servers refuse an empty assistant message.
    bad = Message("assistant", reply.text.strip() or "(empty reply)")
    messages = (*request.messages, bad, Message("user", complaint))
    return replace(request, messages=messages, max_output_tokens=limit)

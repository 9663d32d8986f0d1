"""Ask: one question to the optimizer model, with one chance to mend a reply that cannot be used."""

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
from skillopt_ci.training.replies import WireError

MAX_OUTPUT_TOKENS = 16_384

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Lost:
    """There is no answer to a question; ``error`` says why. It costs the question, not the step."""

    error: SkilloptError


def optimizer_request(
    prompts: Prompts,
    prompt: str,
    stage: str,
    user: str,
    max_output_tokens: int = MAX_OUTPUT_TOKENS,
    supplement: str = "",
    reply_schema: ReplySchema | None = None,
) -> ChatRequest:
    """Return the request that puts ``user`` to the optimizer under the system prompt ``prompt``.

    ``supplement`` names a prompt that is added to it. ``reply_schema`` is told to servers that hold
    a reply to one.
    """
    system = "\n\n".join(prompts.text(name) for name in (prompt, supplement) if name)
    messages = (Message("system", system), Message("user", user))
    return ChatRequest(
        Role.OPTIMIZER,
        stage,
        messages,
        max_output_tokens=max_output_tokens,
        reply_schema=reply_schema,
    )


async def ask(
    client: ChatClient,
    request: ChatRequest,
    parse: Callable[[str], Answer],
    *,
    what: str,
    observer: Observer,
) -> Answer | Lost:
    """Return what ``parse`` makes of the reply to ``request``.

    When it raises :class:`WireError` the model is shown its reply and the error, once. A second
    bad reply, a refusal and a model that stays unavailable are noted, with ``what`` as the name of
    the question, and come back as :class:`Lost`. A wrong setup and a used-up budget are raised.
    """
    try:
        return await _parsed(client, request, parse)
    except (WireError, ModelRefusal, ModelUnavailable) as error:
        observer(Note(f"{what}: no usable answer. {error.message}", level="warning"))
        return Lost(error)


async def ask_vital(
    client: ChatClient,
    request: ChatRequest,
    parse: Callable[[str], Answer],
    *,
    what: str,
    observer: Observer,
) -> Answer | Lost:
    """Ask a question that the whole step depends on: an unavailable model is raised, not noted.

    Raises :class:`~skillopt_ci.model.types.ModelUnavailable`, so that an outage ends the step
    before anything is recorded of it.
    """
    reply = await ask(client, request, parse, what=what, observer=observer)
    if isinstance(reply, Lost) and isinstance(reply.error, ModelUnavailable):
        raise reply.error
    return reply


async def _parsed(
    client: ChatClient, request: ChatRequest, parse: Callable[[str], Answer]
) -> Answer:
    reply = await client.complete(request)
    try:
        return parse(reply.text)
    except WireError as error:
        second = await client.complete(_with_complaint(request, reply, error))
    return parse(second.text)


def _with_complaint(request: ChatRequest, reply: ChatReply, error: WireError) -> ChatRequest:
    cut_off = " It was cut off at the token limit: be briefer." * (reply.finish_reason == "length")
    complaint = (
        f"Your reply could not be used.{cut_off} {error.message}\n\n"
        "Reply again, with the complete JSON object and nothing else."
    )
    # Some servers refuse an empty assistant message.
    bad = Message("assistant", reply.text.strip() or "(empty reply)")
    return replace(request, messages=(*request.messages, bad, Message("user", complaint)))

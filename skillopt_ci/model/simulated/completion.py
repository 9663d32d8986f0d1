"""One call of a simulated model: the same function behind the client and behind the server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.simulated import optimizer, target
from skillopt_ci.model.simulated.dice import Dice, content_key
from skillopt_ci.model.simulated.said import Said
from skillopt_ci.model.simulated.temperament import NOISY, STEADY, Temperament
from skillopt_ci.model.types import Tool

#: Characters per token, as a rule of thumb.
CHARS_PER_TOKEN = 4

Model = Callable[[Sequence[Message], Dice, Sequence[Tool]], Said]


def _target(
    messages: Sequence[Message], dice: Dice, tools: Sequence[Tool], *, temperament: Temperament
) -> Said:
    return target.reply(messages, dice, temperament, tools)


def _optimizer(messages: Sequence[Message], dice: Dice, tools: Sequence[Tool]) -> Said:
    del tools
    return Said(optimizer.propose(messages, dice, STEADY))


MODELS: Mapping[str, Model] = {
    "simulated-target": partial(_target, temperament=STEADY),
    "simulated-target-noisy": partial(_target, temperament=NOISY),
    "simulated-optimizer": _optimizer,
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with its size in tokens; ``finish_reason`` as OpenAI's protocol has it."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    tool_calls: tuple[ToolCall, ...] = ()


def find_model(name: str, where: str = "model") -> Model:
    """Return the simulated model of this name, which ``where`` (a configuration key) asks for.

    Raises ``ModelSetupError`` with the nearest name.
    """
    if name in MODELS:
        return MODELS[name]
    nearest = get_close_matches(name, MODELS, n=1, cutoff=0)
    raise ModelSetupError(
        f"{where}: there is no simulated model {name!r}.",
        hint=f"Did you mean {nearest[0]!r}? Available: {', '.join(sorted(MODELS))}.",
    )


def complete(
    model: str,
    messages: Sequence[Message],
    *,
    seed: int,
    attempt: int,
    limit: int | None,
    tools: Sequence[Tool] = (),
) -> Completion:
    """Answer ``messages`` with at most ``limit`` tokens of text; raises ``ModelSetupError``.

    What an agent makes up its mind about holds for its whole work, so the draws of a conversation
    with tools are those of its beginning.
    """
    decided_on = opening(messages) if tools else messages
    said = find_model(model)(messages, Dice(seed, content_key(decided_on, attempt)), tools)
    shown = said.text if limit is None else said.text[: limit * CHARS_PER_TOKEN]
    written = [shown, *(call.name + call.arguments for call in said.tool_calls)]
    return Completion(
        text=shown,
        finish_reason=_finish_reason(said, shown),
        prompt_tokens=sum(tokens(message.content) for message in messages),
        completion_tokens=sum(map(tokens, written)),
        tool_calls=said.tool_calls,
    )


def opening(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages before the model's first turn."""
    first = next((n for n, message in enumerate(messages) if message.role == "assistant"), None)
    return messages[:first]


def _finish_reason(said: Said, shown: str) -> str:
    if said.tool_calls:
        return "tool_calls"
    return "stop" if shown == said.text else "length"


def tokens(text: str) -> int:
    """Return about how many tokens ``text`` has."""
    return -(-len(text) // CHARS_PER_TOKEN)

"""The simulated models: one function behind the client in process and behind the server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType

from skillopt_ci.config.models import ModelRole
from skillopt_ci.demo.optimizer import propose
from skillopt_ci.demo.target import Turn, next_turn
from skillopt_ci.demo.world import Dice, content_key
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Tool, Usage

#: Characters per token, as a rule of thumb.
CHARS_PER_TOKEN = 4

Model = Callable[[Sequence[Message], Dice, Sequence[Tool]], Turn]

MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "simulated-target": next_turn,
        "simulated-target-noisy": partial(next_turn, slip=0.08),
        "simulated-optimizer": lambda messages, dice, _: Turn(propose(messages, dice)),
    }
)


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
    attempt: int = 0,
    limit: int | None = None,
    tools: Sequence[Tool] = (),
) -> Completion:
    """Answer ``messages`` with at most ``limit`` tokens of text; raises ``ModelSetupError``.

    An agent makes up its mind once: the draws of a conversation with tools are those of the
    messages before its first turn.
    """
    roles = [message.role for message in messages]
    begun = roles.index("assistant") if tools and "assistant" in roles else None
    turn = find_model(model)(messages, Dice(seed, content_key(messages[:begun], attempt)), tools)
    shown = turn.text if limit is None else turn.text[: limit * CHARS_PER_TOKEN]
    whole = "stop" if shown == turn.text else "length"
    written = [shown, *(call.name + call.arguments for call in turn.tool_calls)]
    return Completion(
        text=shown,
        finish_reason="tool_calls" if turn.tool_calls else whole,
        prompt_tokens=sum(tokens(message.content) for message in messages),
        completion_tokens=sum(map(tokens, written)),
        tool_calls=turn.tool_calls,
    )


def tokens(text: str) -> int:
    """Return about how many tokens ``text`` has."""
    return -(-len(text) // CHARS_PER_TOKEN)


class SimulatedClient:
    """Answers as the simulated model that ``config`` names; nothing is paid."""

    def __init__(self, config: ModelRole, role: Role) -> None:
        """Raise ``ModelSetupError`` when there is no model of that name."""
        find_model(config.model, where=f"model.{role}.model")
        self._config = config

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; the reply depends on its content and the configured seed alone."""
        limits = (request.max_output_tokens, self._config.max_output_tokens)
        done = complete(
            self._config.model,
            request.messages,
            seed=self._config.seed,
            attempt=request.attempt,
            limit=min((limit for limit in limits if limit is not None), default=None),
            tools=request.tools,
        )
        usage = Usage(
            calls=1, prompt_tokens=done.prompt_tokens, completion_tokens=done.completion_tokens
        )
        model = self._config.model
        return ChatReply(done.text, done.finish_reason, model, usage, tool_calls=done.tool_calls)

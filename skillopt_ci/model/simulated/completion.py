"""One call of a simulated model: the same function behind the client and behind the server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from skillopt_ci.chat import Message
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.simulated import optimizer, target
from skillopt_ci.model.simulated.dice import Dice, content_key
from skillopt_ci.model.simulated.temperament import NOISY, STEADY

#: Characters per token, as a rule of thumb.
CHARS_PER_TOKEN = 4

Model = Callable[[Sequence[Message], Dice], str]

MODELS: Mapping[str, Model] = {
    "simulated-target": partial(target.answer, temperament=STEADY),
    "simulated-target-noisy": partial(target.answer, temperament=NOISY),
    "simulated-optimizer": partial(optimizer.propose, temperament=STEADY),
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with its size in tokens; ``finish_reason`` is ``stop`` or ``length``."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


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
    model: str, messages: Sequence[Message], *, seed: int, attempt: int, limit: int | None
) -> Completion:
    """Answer ``messages`` with at most ``limit`` tokens; raises ``ModelSetupError``."""
    reply = find_model(model)(messages, Dice(seed, content_key(messages, attempt)))
    shown = reply if limit is None else reply[: limit * CHARS_PER_TOKEN]
    return Completion(
        text=shown,
        finish_reason="stop" if shown == reply else "length",
        prompt_tokens=sum(tokens(message.content) for message in messages),
        completion_tokens=tokens(shown),
    )


def tokens(text: str) -> int:
    """Return about how many tokens ``text`` has."""
    return -(-len(text) // CHARS_PER_TOKEN)

"""One request, one answer: the world as a chat model that counts what it is asked."""

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field

from bench.world.optimizer import Kind, Messages, kind_of, prompt, reply, system_text
from bench.world.world import World, answer, case_of

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply; ``phase`` says who was asked and what for: ``target/train``, ``optimizer/merge``."""

    text: str
    phase: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class Oracle:
    """Answers for one world, and remembers how often it was asked what.

    A repeated identical request gets a fresh sample, as from a model at a temperature; the n-th
    answer to the same content is the same in every run, whatever came in between.
    """

    world: World
    asked: Counter[bytes] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)

    def answer(self, messages: Messages, attempt: int | None = None) -> Answer:
        """The answer to ``messages``; ``attempt`` marks the sample where the client counts."""
        key = hashlib.sha256(repr([(m["role"], m["content"]) for m in messages]).encode()).digest()
        turn = self.asked[key] if attempt is None else attempt
        self.asked[key] += 1
        dice = random.Random(f"{self.world.seed}/{key.hex()}/{turn}")
        answered = _answer(self.world, messages, dice)
        self.calls[answered.phase] += 1
        self.tokens[answered.phase] += answered.prompt_tokens + answered.completion_tokens
        return answered


def _answer(world: World, messages: Messages, dice: random.Random) -> Answer:
    kind: Kind = kind_of(messages)
    task = case_of(world, prompt(messages)) if kind == "target" else None
    if task is not None:
        text = answer(world, task, system_text(messages), dice)
        phase = f"target/{task.id.partition('-')[0]}"
    else:
        text, phase = reply(world, kind, messages, dice), f"optimizer/{kind}"
    size = sum(len(message["content"]) for message in messages)
    return Answer(
        text, phase, size // _CHARACTERS_PER_TOKEN, len(text) // _CHARACTERS_PER_TOKEN + 1
    )

"""A world: which rules help, which harm, what the tasks need, and what a skill is truly worth."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bench.world.catalogue import SENTENCES, TASK_TYPES, TOPICS, normal
from bench.world.parameters import Parameters

SPLITS = ("train", "selection", "test")


@dataclass(frozen=True, slots=True)
class Rule:
    """A sentence and its effect on the tasks of each type, in logits."""

    topic: str
    text: str
    effects: Mapping[str, float]

    @property
    def helpful(self) -> bool:
        """Whether it is its topic's right practice."""
        return any(effect > 0 for effect in self.effects.values())

    @property
    def harmful(self) -> bool:
        """Whether it does harm somewhere."""
        return any(effect < 0 for effect in self.effects.values())


@dataclass(frozen=True, slots=True)
class Task:
    """A case; ``difficulty`` is in logits."""

    id: str
    type: str
    difficulty: float
    answer: str

    @property
    def prompt(self) -> str:
        """What the target is asked."""
        return (
            f"Case {self.id} ({self.type})\n\n"
            f"Work out the code of this {self.type} case. "
            "Give it as <answer>CODE</answer> at the end."
        )


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Everything that is hidden from the systems.

    ``odds`` are the optimizer's odds to name a topic's right practice, ``misled`` those that a
    wrong guess of it is the harmful one.
    """

    seed: int
    parameters: Parameters
    rules: Mapping[str, Rule]
    by_topic: Mapping[str, tuple[Rule, ...]]
    splits: Mapping[str, tuple[Task, ...]]
    tasks: Mapping[str, Task]
    odds: Mapping[str, float]
    misled: Mapping[str, float]

    def stated(self, text: str) -> frozenset[str]:
        """The sentences of rules that ``text`` states."""
        return _stated(self, text)

    def success(self, task: Task, stated: frozenset[str]) -> float:
        """The chance that the target solves ``task`` when the skill states these rules."""
        known = self.parameters
        effect, clutter = _effects(self, stated)
        logit = known.base + effect.get(task.type, 0.0) - clutter - task.difficulty
        return known.floor + (known.ceiling - known.floor) / (1 + math.exp(-logit))

    def true_score(self, skill: str, split: str = "test") -> float:
        """The exact expected score of ``skill`` on the tasks of ``split``."""
        stated, tasks = self.stated(skill), self.splits[split]
        return sum(self.success(task, stated) for task in tasks) / len(tasks)

    def best_skill(self) -> str:
        """The skill that states exactly the right practices."""
        return "\n".join(rule.text for rule in self.rules.values() if rule.helpful)


@lru_cache(maxsize=4096)
def _stated(world: World, text: str) -> frozenset[str]:
    read = normal(text)
    return frozenset(sentence for sentence in world.rules if normal(sentence) in read)


@lru_cache(maxsize=4096)
def _effects(world: World, stated: frozenset[str]) -> tuple[dict[str, float], float]:
    total = dict.fromkeys(TASK_TYPES, 0.0)
    for sentence in stated:
        for kind, effect in world.rules[sentence].effects.items():
            total[kind] += effect
    known = world.parameters
    return total, known.clutter * max(0, len(stated) - known.free_rules)


def make_world(seed: int, parameters: Parameters | None = None) -> World:
    """The world of ``seed``; the same on every machine."""
    known = parameters or Parameters()
    dice = random.Random(f"world/{seed}")
    by_topic = _rules(dice, known)
    splits = {split: _tasks(dice, split, getattr(known, split), known) for split in SPLITS}
    odds = {topic: dice.betavariate(*known.belief) for topic in TOPICS}
    misled = {topic: dice.uniform(0.25, 0.75) for topic in TOPICS}
    return World(
        seed=seed,
        parameters=known,
        rules={rule.text: rule for rules in by_topic.values() for rule in rules},
        by_topic=by_topic,
        splits=splits,
        tasks={task.id: task for tasks in splits.values() for task in tasks},
        odds=odds,
        misled=misled,
    )


def _rules(dice: random.Random, known: Parameters) -> dict[str, tuple[Rule, ...]]:
    """The rules of each topic: right, harmful and neutral; idle topics have no right one."""
    topics = dice.sample(TOPICS, len(TOPICS))
    weights = dict(zip(topics, known.weights, strict=False))
    reach = _reach(dice, [topic for topic in topics if topic in weights], known.types_per_rule)
    return {
        topic: _rivals(dice, topic, weights.get(topic, 0.0), reach.get(topic, ()), known)
        for topic in topics
    }


def _reach(dice: random.Random, topics: list[str], each: int) -> dict[str, tuple[str, ...]]:
    """Which types a topic matters to, spread evenly."""
    pool: list[str] = []
    reach = {}
    for topic in topics:
        chosen: list[str] = []
        while len(chosen) < each:
            pool = pool or dice.sample(TASK_TYPES, len(TASK_TYPES))
            one = pool.pop()
            if one not in chosen:
                chosen.append(one)
        reach[topic] = tuple(chosen)
    return reach


def _rivals(
    dice: random.Random, topic: str, weight: float, types: tuple[str, ...], known: Parameters
) -> tuple[Rule, ...]:
    right, harmful, neutral = dice.sample(SENTENCES[topic], len(SENTENCES[topic]))
    gain = {kind: weight * (1 + dice.uniform(-known.jitter, known.jitter)) for kind in types}
    hurt = types or tuple(dice.sample(TASK_TYPES, known.types_per_rule))
    loss = {kind: -known.harm * dice.uniform(0.4, 1.6) for kind in hurt}
    return (
        Rule(topic, right, gain),
        Rule(topic, harmful, loss),
        Rule(topic, neutral, {}),
    )


def _tasks(dice: random.Random, split: str, count: int, known: Parameters) -> tuple[Task, ...]:
    return tuple(
        Task(
            id=f"{split}-{number:04d}",
            type=TASK_TYPES[number % len(TASK_TYPES)],
            difficulty=dice.gauss(0, known.difficulty_sd),
            answer=f"{dice.getrandbits(40):010X}",
        )
        for number in range(count)
    )

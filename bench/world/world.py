"""A world: which rules help, which harm, what the tasks need, and what a skill is truly worth."""

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

#: What cases are about. Which of them matter, and to whom, a world's seed decides.
TOPICS = (
    "currency rounding",
    "duplicate lines",
    "regional holidays",
    "missing signatures",
    "partial deliveries",
    "archived orders",
    "negative balances",
    "handwritten amounts",
    "forwarded requests",
    "merged accounts",
    "expired discounts",
    "shared addresses",
    "split payments",
    "revised quotes",
    "foreign units",
    "open disputes",
    "blank columns",
    "late corrections",
    "nested tables",
    "unusual dates",
    "customer nicknames",
    "colour markings",
    "attached letters",
    "phone remarks",
    "printed stamps",
    "page numbers",
)

_PRACTICES = (
    "Settle {topic} first, before any total is formed.",
    "Treat {topic} as final and copy the value from the header.",
    "Leave {topic} to the closing check and mark them with a star.",
)

#: Names of the kinds of cases.
TASK_TYPES = ("invoice", "shipment", "claim", "roster", "ledger", "survey")


def _sentences() -> Mapping[str, tuple[str, ...]]:
    return {topic: tuple(one.format(topic=topic) for one in _PRACTICES) for topic in TOPICS}


#: The rival sentences of each topic.
SENTENCES: Mapping[str, tuple[str, ...]] = MappingProxyType(_sentences())

#: The skill that every system starts from.
INITIAL_SKILL = """\
# Working on case files

Read the case, work out its code, and give the code in the form that the case asks for.

## Rules

- Read the whole case before you answer.
"""


def normal(text: str) -> str:
    """``text`` as rules are looked up in it: case folded, white space collapsed."""
    return " ".join(text.casefold().split())


# Its numbers: how much rules matter, and how well the optimizer judges.


@dataclass(frozen=True, slots=True)
class Parameters:
    """Effects are in logits of a task's chance of success, shares and chances from 0 to 1.

    ``weights`` are those of the right practices, one per topic that matters; ``harm`` is the mean
    effect of a harmful practice. ``clutter`` is lost per rule beyond ``free_rules``. ``chance`` is
    the weight of mere chance among the causes that a failure is put down to. ``belief`` is the
    Beta distribution of the optimizer's odds to know a topic's right practice, which rise by
    ``learned`` with each further failure that shows the topic; ``stubborn`` is how often a
    rejected rule is proposed again, ``spurious`` how often a whim takes an idea's place,
    ``harmful`` how often a reply carries a harmful rule besides.
    """

    weights: tuple[float, ...] = (
        *(1.9, 1.6, 1.3, 1.1, 0.9, 0.8, 0.7, 0.6),
        *(0.5, 0.5, 0.4, 0.4, 0.3, 0.3, 0.2, 0.2),
    )
    jitter: float = 0.2
    types_per_rule: int = 2
    harm: float = 0.9
    base: float = -1.2
    difficulty_sd: float = 1.0
    floor: float = 0.02
    ceiling: float = 0.98
    free_rules: int = 14
    clutter: float = 0.03
    chance: float = 1.2
    belief: tuple[float, float] = (2.2, 2.0)
    learned: float = 0.07
    stubborn: float = 0.3
    spurious: float = 0.1
    harmful: float = 0.0
    train: int = 80
    selection: int = 40
    test: int = 280


# What a seed makes of them.

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


# The target solves a case with a chance that depends on the rules its prompt states.

_CASE = re.compile(r"\ACase (\S+) \(")
_UNSURE = re.compile(r"unsure about ([a-z ]+)\.")
_SURE = re.compile(r"paid attention to ([a-z ]+)\.")


def case_of(world: World, prompt: str) -> Task | None:
    """The case that ``prompt`` puts, if it does."""
    found = _CASE.match(prompt)
    return world.tasks.get(found[1]) if found else None


def answer(world: World, task: Task, system: str, dice: random.Random) -> str:
    """The target's response; what it was unsure about is the trace of the failure's cause."""
    stated = world.stated(system)
    if dice.random() < world.success(task, stated):
        topic = _helped(world, task, stated, dice)
        return f"I went through the case and paid attention to {topic}.\n" + _told(task.answer)
    topic = _cause(world, task, stated, dice)
    wrong = f"{dice.getrandbits(40):010X}"
    return f"I went through the case but was unsure about {topic}.\n" + _told(wrong)


def doubts(text: str) -> set[str]:
    """The topics that failed responses in ``text`` were unsure about."""
    return set(_UNSURE.findall(text))


def certainties(text: str) -> set[str]:
    """The topics that solved responses in ``text`` paid attention to."""
    return set(_SURE.findall(text))


def _told(code: str) -> str:
    return f"<answer>{code}</answer>"


def _cause(world: World, task: Task, stated: frozenset[str], dice: random.Random) -> str:
    """What the failure is put down to: a missing or a harmful rule, or by chance anything."""
    weights = dict.fromkeys(world.by_topic, 0.0)
    for topic, (right, harmful, _) in world.by_topic.items():
        if right.text not in stated:
            weights[topic] += right.effects.get(task.type, 0.0)
        if harmful.text in stated:
            weights[topic] -= harmful.effects.get(task.type, 0.0)
    each = world.parameters.chance / len(weights)
    topics = list(weights)
    return dice.choices(topics, [weights[topic] + each for topic in topics])[0]


def _helped(world: World, task: Task, stated: frozenset[str], dice: random.Random) -> str:
    topics = list(world.by_topic)
    return dice.choices(topics, [_help(world, one, task, stated) for one in topics])[0]


def _help(world: World, topic: str, task: Task, stated: frozenset[str]) -> float:
    right = world.by_topic[topic][0]
    held = right.effects.get(task.type, 0.0) if right.text in stated else 0.0
    return held + world.parameters.chance / len(world.by_topic)

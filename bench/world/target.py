"""The target: solves a case with a chance that depends on the rules its prompt states."""

import random
import re

from bench.world.world import Task, World

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

"""What the optimizer makes of evidence: ideas, of which fewer than half are right."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.world.world import Rule, World


@dataclass(frozen=True, slots=True)
class Idea:
    """A change of the skill: ``sentence`` instead of ``target``; one of them may be empty."""

    target: str
    sentence: str
    support: int

    @property
    def op(self) -> Literal["append", "replace", "delete"]:
        """The edit that carries it out."""
        if not self.target:
            return "append"
        return "replace" if self.sentence else "delete"


def ideas(
    world: World,
    skill: str,
    evidence: Mapping[str, int],
    rejected: Collection[str],
    limit: int,
    dice: random.Random,
) -> tuple[Idea, ...]:
    """At most ``limit`` ideas, the best supported first.

    ``evidence`` counts the trajectories that show a topic. The same for every system: what it may
    know is the text of its prompt, and how well it judges is the world's.
    """
    stated = world.stated(skill)
    counted = [(count + dice.gauss(0, 0.7), topic) for topic, count in sorted(evidence.items())]
    found = []
    for _, topic in sorted(counted, reverse=True):
        idea = _idea(world, topic, evidence[topic], stated, rejected, dice)
        if idea is not None:
            whim = dice.random() < world.parameters.spurious
            found.append(_whim(world, stated, dice) if whim else idea)
    return tuple(found[:limit])


def _idea(
    world: World,
    topic: str,
    count: int,
    stated: frozenset[str],
    rejected: Collection[str],
    dice: random.Random,
) -> Idea | None:
    rivals = world.by_topic.get(topic, ())
    present = [rule for rule in rivals if rule.text in stated]
    if present:
        if dice.random() > min(0.75, 0.2 + 0.12 * (count - 1)):
            return None
        if dice.random() < 0.3:
            return Idea(present[0].text, "", count)
    open_ones = [rule for rule in rivals if rule not in present]
    open_ones = [
        rule
        for rule in open_ones
        if rule.text not in rejected or dice.random() < world.parameters.stubborn
    ]
    if not open_ones:
        return None
    chosen = _choose(world, topic, count, open_ones, dice)
    return Idea(present[0].text if present else "", chosen.text, count)


def _choose(world: World, topic: str, count: int, rules: list[Rule], dice: random.Random) -> Rule:
    """The practice that the optimizer holds for right; it errs consistently by topic."""
    odds = min(0.9, world.odds[topic] + world.parameters.learned * (count - 1))
    misled = (1 - odds) * world.misled[topic]
    shares = (odds, misled, 1 - odds - misled)
    weights = {rule.text: share for rule, share in zip(world.by_topic[topic], shares, strict=True)}
    return dice.choices(rules, [weights[rule.text] + 1e-9 for rule in rules])[0]


def _whim(world: World, stated: frozenset[str], dice: random.Random) -> Idea:
    unsaid = [text for text, rule in world.rules.items() if text not in stated and not rule.helpful]
    return Idea("", dice.choice(unsaid), 1)

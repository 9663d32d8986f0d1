"""The optimizer: requests and replies in the wire formats of SkillOpt (and ours) and of GEPA."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bench.world.world import Rule, World, certainties, doubts

# What it makes of evidence: ideas, of which fewer than half are right.


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
    harm = world.parameters.harmful
    if harm and limit and dice.random() < harm:
        found[limit - 1 :] = _harm(world, stated | frozenset(rejected), dice)
    return tuple(found[:limit])


def _harm(world: World, known: frozenset[str], dice: random.Random) -> list[Idea]:
    bad = [text for text, rule in world.rules.items() if rule.harmful and text not in known]
    return [Idea("", dice.choice(bad), 1)] if bad else []


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


# Requests read back into what it is asked, whoever's prompt it is.

Kind = Literal[
    "target",
    "reflection",
    "analyst",
    "merge",
    "merge_final",
    "ranking",
    "slow_update",
    "meta_skill",
    "unknown",
]
Messages = Sequence[Mapping[str, str]]

_BLOCK = re.compile(r"^#+ (?:Trajectory|Task|Example) ", re.MULTILINE)
_LIMIT = re.compile(r"at most L=(\d+)")
_SELECT = re.compile(r"[Ss]elect (?:at most |the )(\d+)")
_POOL = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
#: Edits that our step buffer allows to be proposed again.
_OPEN = re.compile(r"may be proposed again\):\n(?:\d+\. .*\n?)*")
_SUPPORT = re.compile(r"\bsupport=(\d+)")
_SECTION = r"^## {}[^\n]*\n(.*?)(?=^## (?:{})|\Z)"
_NEXT = (
    "Edits Budget|Previous Steps|Optimizer Meta Skill|Failed Traj|Successful Traj|Reviewer"
    "|Previous Slow|Longitudinal|Patches to merge|Two pre-merged|Group|Edits? Pool|Edit pool"
    "|Current|Last Change|Comparison|Previous Guidance|Previous Epoch"
)


def kind_of(messages: Messages) -> Kind:
    """What sort of request ``messages`` is."""
    system, user = system_text(messages), prompt(messages)
    if user.startswith("Case "):
        return "target"
    signs: tuple[tuple[bool, Kind], ...] = (
        ("write a new instruction for the assistant" in user, "reflection"),
        ("slow_update_content" in system, "slow_update"),
        ("meta_skill_content" in system, "meta_skill"),
        ("Patches to merge" in user, "merge"),
        ("Group 1" in user, "merge_final"),
        (bool(re.search(r"^## Edits? [Pp]ool", user, re.MULTILINE)), "ranking"),
        ("Trajectories" in user, "analyst"),
    )
    return next((kind for holds, kind in signs if holds), "unknown")


def system_text(messages: Messages) -> str:
    """All system messages."""
    return "\n".join(one["content"] for one in messages if one["role"] in {"system", "developer"})


def prompt(messages: Messages) -> str:
    """The first user message: later ones only complain about a reply."""
    return next((one["content"] for one in messages if one["role"] == "user"), "")


def section(text: str, title: str) -> str:
    """The second-level section whose heading begins with ``title``, empty if there is none."""
    pattern = _SECTION.format(re.escape(title), _NEXT)
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def evidence(text: str, topics: Callable[[str], set[str]]) -> Counter[str]:
    """How many of the trajectories in ``text`` show each topic."""
    starts = [found.start() for found in _BLOCK.finditer(text)]
    blocks = (text[start:end] for start, end in pairwise([*starts, len(text)]))
    return Counter(topic for block in blocks for topic in topics(block))


def limit_of(text: str) -> int:
    """The most edits that an analyst may propose."""
    found = _LIMIT.search(text)
    return int(found[1]) if found else 4


def pool_of(text: str) -> tuple[list[tuple[int, str, int]], int]:
    """A ranking's pool (index, description, support) and how many are to be selected."""
    listed = section(text, "Edits Pool") or section(text, "Edit pool") or text
    entries = []
    for index, described in _POOL.findall(listed):
        support = _SUPPORT.search(described)
        entries.append((int(index), described, int(support[1]) if support else 1))
    wanted = _SELECT.findall(text)
    return entries, int(wanted[-1]) if wanted else len(entries)


def edits_of(text: str) -> list[dict[str, object]]:
    """Every edit in the JSON that ``text`` holds, in order."""
    return [edit for value in _values(text) for edit in _edits(value)]


def _values(text: str) -> Iterator[object]:
    decoder, position = json.JSONDecoder(), 0
    for found in re.finditer(r"^[\[{]", text, re.MULTILINE):
        if found.start() < position:
            continue
        try:
            value, position = decoder.raw_decode(text, found.start())
        except ValueError:
            continue
        yield value


def _edits(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict) and "op" in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _edits(inner)


# Its replies.

_CURRENT = re.compile(r"task for me:\n```\n(.*?)\n```\n\nThe following are examples", re.DOTALL)
_NO_LIMIT = 100
_GUIDANCE_LINES = 3


def reply(world: World, kind: Kind, messages: Messages, dice: random.Random) -> str:
    """The reply to a request of this ``kind``; an unknown one gets an empty object."""
    answer = _ANSWERS.get(kind)
    return answer(world, prompt(messages), dice) if answer else "{}"


def _analyst(world: World, text: str, dice: random.Random) -> str:
    failed = "Failed Trajectories" in text
    shown = section(text, "Failed Trajectories" if failed else "Successful Trajectories")
    rejected = world.stated(_OPEN.sub("", section(text, "Previous Steps")))
    limit = limit_of(text)
    if failed:
        counts = evidence(shown, doubts)
        found = ideas(world, section(text, "Current Skill"), counts, rejected, limit, dice)
    else:
        counts = evidence(shown, certainties)
        found = _from_successes(world, section(text, "Current Skill"), counts, rejected, dice)
    edits = [_edit(idea, "failure" if failed else "success") for idea in found]
    summary = [
        {"failure_type": topic, "count": n, "description": f"Cases with {topic} go wrong."}
        for topic, n in counts.most_common(4)
    ]
    told = {"failure_summary": summary} if failed else {"success_patterns": list(counts)}
    patch = {"reasoning": "What several cases have in common.", "edits": edits}
    return json.dumps({"batch_size": sum(counts.values()), **told, "patch": patch})


def _from_successes(
    world: World,
    skill: str,
    counts: Mapping[str, int],
    rejected: frozenset[str],
    dice: random.Random,
) -> tuple[Idea, ...]:
    """Successes mostly need nothing; now and then one is generalised into a rule."""
    if dice.random() < 0.5:
        return ()
    stated = world.stated(skill)
    unsaid = {
        topic: 1
        for topic in counts
        if topic in world.by_topic and not any(r.text in stated for r in world.by_topic[topic])
    }
    return ideas(world, skill, unsaid, rejected, 1, dice)


def _edit(idea: Idea, source: str) -> dict[str, object]:
    return {
        "op": idea.op,
        "target": _line(idea.target),
        "content": _line(idea.sentence),
        "support_count": idea.support,
        "source_type": source,
    }


def _line(sentence: str) -> str:
    return f"- {sentence}" if sentence else ""


def _merge(world: World, text: str, dice: random.Random) -> str:
    """Equal edits add up; of contradicting ones mostly the better supported stays."""
    pooled: dict[tuple[str, str], dict[str, object]] = {}
    for edit in edits_of(text):
        key = (str(edit.get("target") or ""), str(edit.get("content") or ""))
        known = pooled.setdefault(key, {**edit, "support_count": 0})
        known["support_count"] = _support(known) + _support(edit)
    listed = sorted(pooled.values(), key=lambda edit: -_support(edit) - dice.random())
    kept: dict[str, dict[str, object]] = {}
    for edit in listed:
        topic = _topic(world, edit)
        if topic not in kept or dice.random() < 0.15:
            kept[topic] = edit
    lone = [edit for edit in kept.values() if _support(edit) > 1 or dice.random() > 0.2]
    return json.dumps({"reasoning": "Merged by support.", "edits": lone})


def _support(edit: Mapping[str, object]) -> int:
    support = edit.get("support_count", 1)
    return support if isinstance(support, int) else 1


def _topic(world: World, edit: Mapping[str, object]) -> str:
    text = f"{edit.get('content') or ''} {edit.get('target') or ''}"
    return next((topic for topic in world.by_topic if topic in text), text)


def _ranking(world: World, text: str, dice: random.Random) -> str:
    del world
    entries, wanted = pool_of(text)
    order = sorted(entries, key=lambda entry: -entry[2] - dice.gauss(0, 1.5))
    chosen = [index for index, _, _ in order[:wanted]]
    return json.dumps({"reasoning": "The best supported first.", "selected_indices": chosen})


def _slow_update(world: World, text: str, dice: random.Random) -> str:
    skill = section(text, "Current")
    compared = text.partition("## Longitudinal Comparison")[2] or section(text, "Comparison")
    guidance = section(text, "Previous Slow Update") or section(text, "Previous Guidance")
    kept = [rule for rule in sorted(world.stated(guidance)) if dice.random() < 0.85]
    counts = evidence(compared, doubts)
    found = ideas(world, skill, counts, frozenset(), _NO_LIMIT, dice)
    new = [idea.sentence for idea in found if idea.op == "append"][:_GUIDANCE_LINES]
    content = "\n".join(map(_line, dict.fromkeys([*kept, *new])))
    return json.dumps({"reasoning": "From the comparison.", "slow_update_content": content})


def _meta_skill(world: World, text: str, dice: random.Random) -> str:
    del world, text, dice
    memory = "Prefer rules that several cases support, and look at what was rejected before."
    return json.dumps({"reasoning": "From the comparison.", "meta_skill_content": memory})


def _reflection(world: World, text: str, dice: random.Random) -> str:
    """GEPA's new instruction: the old text with the ideas carried out, in a fenced block."""
    found = _CURRENT.search(text)
    current = found[1] if found else ""
    counts = evidence(text, doubts)
    for idea in ideas(world, current, counts, frozenset(), _NO_LIMIT, dice):
        current = _carried_out(current, idea)
    return f"Here is the new instruction.\n\n```\n{current}\n```"


def _carried_out(text: str, idea: Idea) -> str:
    if idea.op == "append":
        return f"{text.rstrip()}\n{_line(idea.sentence)}\n"
    return text.replace(_line(idea.target), _line(idea.sentence))


_ANSWERS: Mapping[Kind, Callable[[World, str, random.Random], str]] = {
    "analyst": _analyst,
    "merge": _merge,
    "merge_final": _merge,
    "ranking": _ranking,
    "slow_update": _slow_update,
    "meta_skill": _meta_skill,
    "reflection": _reflection,
}

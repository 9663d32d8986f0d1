"""The optimizer's replies, in the wire formats of SkillOpt (and ours) and of GEPA."""

import json
import random
import re
from collections.abc import Callable, Mapping

from bench.world.judgement import Idea, ideas
from bench.world.reading import (
    Kind,
    Messages,
    edits_of,
    evidence,
    limit_of,
    pool_of,
    prompt,
    section,
)
from bench.world.target import certainties, doubts
from bench.world.world import World

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
    rejected = world.stated(section(text, "Previous Steps"))
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

"""The simulated optimizer: answers each stage of training in the agreed JSON."""

import json
from collections.abc import Sequence

from skillopt_ci.chat import Message
from skillopt_ci.model.simulated.analyst import analyse_failures, analyse_successes
from skillopt_ci.model.simulated.brief import (
    first_prompt,
    read_analyst_brief,
    read_merge_brief,
    read_ranking_brief,
    stage_of,
)
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.judge import is_grading, judge
from skillopt_ci.model.simulated.merge import merge_edits
from skillopt_ci.model.simulated.ranking import rank
from skillopt_ci.model.simulated.temperament import Temperament


def propose(messages: Sequence[Message], dice: Dice, temperament: Temperament) -> str:
    """Return the optimizer's reply to whatever stage the system prompt names."""
    stage = stage_of(messages)
    if not stage and is_grading(messages):
        return judge(messages, dice)
    reply = _reply(stage, first_prompt(messages), dice, temperament)
    if reply and dice.chance("malformed", temperament.malformed):
        return _malformed(reply, dice)
    return _worded(reply, dice)


def _reply(stage: str, prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    match stage:
        case "analyst_error":
            return analyse_failures(read_analyst_brief(prompt), dice, temperament)
        case "analyst_success":
            return analyse_successes(read_analyst_brief(prompt), dice, temperament)
        case "merge_failure" | "merge_success" | "merge_final":
            return merge_edits(read_merge_brief(prompt), dice, temperament)
        case "ranking":
            return rank(*read_ranking_brief(prompt))
        case _:
            return {}


def _worded(reply: dict[str, object], dice: Dice) -> str:
    """Write ``reply`` as chat models do: bare, in a fence, or with a sentence before it."""
    text = json.dumps(reply, ensure_ascii=False, indent=2)
    match dice.pick("wording", ("bare", "fenced", "introduced")):
        case "bare":
            return text
        case "fenced":
            return f"```json\n{text}\n```"
        case _:
            return f"I have looked at everything. My answer:\n\n```json\n{text}\n```\n"


def _malformed(reply: dict[str, object], dice: Dice) -> str:
    text = json.dumps(reply, ensure_ascii=False)
    match dice.pick("malformation", ("truncated", "prose", "types")):
        case "truncated":
            return text[: len(text) // 3]
        case "prose":
            return "The answers look mostly fine; a few rules about formatting would help."
        case _:
            return json.dumps({"patch": "see above", "edits": 3, "selected_indices": "all"})

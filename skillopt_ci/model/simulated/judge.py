"""The simulated judge: the more words an answer shares with the rest of the prompt, the better."""

import json
import re
from collections.abc import Sequence

from skillopt_ci.messages import Message
from skillopt_ci.model.simulated.brief import first_prompt
from skillopt_ci.model.simulated.dice import Dice

_WORD = re.compile(r"\w+")
_BLOCK = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)


def is_grading(messages: Sequence[Message]) -> bool:
    """Return whether the prompt asks for a score in JSON."""
    return any(re.search(r"[\"'`]score[\"'`]", message.content) for message in messages)


def judge(messages: Sequence[Message], dice: Dice) -> str:
    """Return a grade from 0 to 1 with a reason.

    The last fenced block is taken for the answer and the earlier ones for what it is held against.
    Without two blocks the grade is a draw.
    """
    blocks = [_words(block) for _, block in _BLOCK.findall(first_prompt(messages))]
    if len(blocks) < 2 or not blocks[-1]:  # noqa: PLR2004
        score = round(0.4 + 0.6 * dice.roll("grade"), 2)
        return json.dumps({"score": score, "reason": "A plausible answer."})
    expected = set().union(*blocks[:-1])
    shared = len(blocks[-1] & expected) / len(blocks[-1])
    reason = f"{shared:.0%} of the answer's words are those of the task and the rubric."
    return json.dumps({"score": round(shared, 2), "reason": reason})


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))

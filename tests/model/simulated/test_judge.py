import json
from collections.abc import Callable

from skillopt_ci.demo.models import Dice, is_grading, judge
from skillopt_ci.messages import Message

Build = Callable[[str, str], tuple[Message, ...]]
ASKED = 'Reply with {"score": 0..1, "reason": "…"}.'


def _score(prompt: str) -> float:
    score = json.loads(judge((Message("user", prompt),), Dice(0, prompt)))["score"]
    assert isinstance(score, float)
    return score


def test_an_answer_with_the_rubrics_words_is_better_than_one_without() -> None:
    rubric = f"{ASKED}\n```\nnames the river and the town\n```\n"
    assert _score(f"{rubric}```\nthe town\n```") == 1
    assert _score(f"{rubric}```\nno idea\n```") == 0


def test_without_blocks_the_grade_is_a_draw_between_bounds() -> None:
    assert all(0.4 <= _score(f"{ASKED} {number}") <= 1 for number in range(50))


def test_grading_prompts_are_told_from_others(conversation: Build) -> None:
    assert is_grading(conversation(ASKED, "x"))
    assert not is_grading(conversation("Stage: ranking", "the score of a match"))

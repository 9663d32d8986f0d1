import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import STEADY, Dice, content_key, propose
from skillopt_ci.messages import Message

RELIABLE = replace(STEADY, malformed=0.0)
STAGES = [
    "analyst_error",
    "analyst_success",
    "merge_failure",
    "merge_success",
    "merge_final",
    "ranking",
]
POOL = """## Edit pool (3 edits)

```
[0] op="append" target="" content="a" support=1
[1] op="append" target="" content="b" support=5
[2] op="append" target="" content="support=9" support=3
```

Select at most 2 edits."""


def _asked(stage: str, user: str) -> tuple[Message, ...]:
    return (Message("system", f"# Role\n\nStage: {stage}\n"), Message("user", user))


def test_ranking_prefers_what_reviewers_asked_for() -> None:
    prompt = f"{POOL}\n\n## Reviewers' Wishes\n\nPeople asked for [0]."
    reply = propose(_asked("ranking", prompt), Dice(0, "r"), RELIABLE)
    assert '"selected_indices": [\n    0' in reply


def test_ranking_follows_support() -> None:
    reply = propose(_asked("ranking", POOL), Dice(0, "r"), RELIABLE)
    assert '"selected_indices": [\n    1,\n    2\n  ]' in reply


def test_an_unknown_stage_is_answered_with_an_empty_object() -> None:
    replies = {propose(_asked("someday", "?"), Dice(0, str(k)), STEADY) for k in range(20)}
    assert all("{}" in reply for reply in replies)


def test_replies_are_worded_in_several_ways() -> None:
    replies = [propose(_asked("ranking", POOL), Dice(k, "w"), RELIABLE) for k in range(20)]
    assert {reply[:1] for reply in replies} == {"{", "`", "I"}


def test_some_replies_are_malformed_and_a_retry_may_mend_them() -> None:
    spoilt = replace(STEADY, malformed=0.5)
    asked = _asked("ranking", POOL)
    retry = (*asked, Message("assistant", "?"), Message("user", "That was no JSON object."))
    good = propose(asked, Dice(0, "k"), RELIABLE)
    first = [propose(asked, Dice(k, content_key(asked)), spoilt) for k in range(40)]
    again = [propose(retry, Dice(k, content_key(retry)), spoilt) for k in range(40)]
    bad = [k for k in range(40) if "reasoning" not in first[k] or len(first[k]) < len(good) // 2]
    assert 5 < len(bad) < 35
    assert any("selected_indices" in again[k] and again[k] != first[k] for k in bad)


def test_a_grading_prompt_is_graded_even_by_the_optimizer() -> None:
    prompt = 'Rubric:\n```\nshort and kind\n```\nAnswer:\n```\nkind\n```\nReply {"score": …}'
    reply = propose((Message("user", prompt),), Dice(0, "j"), STEADY)
    assert json.loads(reply)["score"] == 1.0


@given(st.sampled_from(STAGES), st.text())
def test_no_prompt_can_break_it(stage: str, user: str) -> None:
    assert propose(_asked(stage, f"## Trajectory 1\n{user}"), Dice(0, user), STEADY)

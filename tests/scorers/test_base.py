import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config import scorers
from skillopt_ci.scorers import base
from skillopt_ci.scorers.base import (
    REASON_CHARS,
    GraderError,
    Score,
    brief,
    combined,
    extract,
    grade_parts,
    last_words,
    sentence,
)
from skillopt_ci.tasks.task import Task


@given(st.text(), st.lists(st.text(), min_size=1, max_size=30))
def test_reasons_are_short_and_on_one_line(text, texts):
    for reason in (brief(text), last_words(text), base.mismatch(texts, text), sentence(texts)):
        assert len(reason) <= REASON_CHARS
        assert len(reason.splitlines()) <= 1


def test_long_text_keeps_its_head_or_its_tail():
    text = "a" * 300 + "b" * 300
    assert (brief(text)[:2], last_words(text)[-2:]) == ("aa", "bb")
    assert all(letter * 50 in sentence([c * 500 for c in "abc"]) for letter in "abc")


PLAIN = st.text(st.characters(exclude_characters="<>`~", exclude_categories=["Cs"]))


@given(PLAIN, PLAIN, PLAIN)
def test_tagged_answer_is_found_whatever_stands_around_it(before, answer, after):
    assert extract(f"{before}<answer>{answer}</answer>{after}", "tag") == answer.strip()


@given(PLAIN, st.text("abc \n", min_size=1))
def test_fenced_block_is_found_whatever_stands_before_it(before, code):
    assert extract(f"{before}\n```python\n{code}\n```", "fence") == code.strip("\n")


@given(st.text(), st.sampled_from(["", "\n$$", "\n\\]\n", "\n```"]))
def test_last_line_closes_no_block(text, closing):
    assert extract(text + closing, "last_line") in {"", *map(str.strip, text.splitlines())}


@given(st.text())
def test_every_way_of_extracting_takes_any_text(response):
    assert all(extract(response, how) is not None for how in ("tag", "last_line", "fence", "text"))


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer>1</answer> no: <ANSWER>2</Answer>", "2"),
        ("<answer>draft <answer>final</answer>", "final"),
        ("<answer>kept</answer> stray </answer>", "kept"),
        ("<answer>kept</answer> <answer>cut off", "kept"),
        ("<answer>two\nlines</answer>", "two\nlines"),
        ("<answer></answer>\nnothing", ""),
        ("no tag\nbut a last line \n\n", "but a last line"),
        ("", ""),
    ],
)
def test_tag(response, answer):
    assert extract(response, "tag") == answer


def test_tag_name_is_taken_literally():
    assert base.last_tagged("<axb>no</axb><a.b>yes</a.b>", "a.b") == "yes"
    assert extract("<a.b>yes</a.b>", "tag", "<a.b>") == "yes"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("```\none\n```\n```json\ntwo\n```\nthree", "two"),
        ("~~~\n```\ninner\n```\n~~~", "```\ninner\n```"),
        ("````\n```\nkept\n````", "```\nkept"),
        ("```py\nnever closed", "never closed"),
        ("- item\n  ```\n  a\n    b\n  ```", "a\n  b"),
        ("inline ```code``` only", "inline ```code``` only"),
        ("```code``` on its own line\nend", "```code``` on its own line\nend"),
        ('```json\r\n["\u2028\x0c"]\r\n```\r\n', '["\u2028\x0c"]'),
    ],
)
def test_fence(response, answer):
    assert extract(response, "fence") == answer


PARTS = (scorers.ExactScorer(type="exact"),)
ALL, ANY = scorers.AllScorer(type="all", of=PARTS), scorers.AnyScorer(type="any", of=PARTS)
SCORES = st.lists(
    st.builds(Score, st.sampled_from([0.0, 1.0]), st.floats(0, 1), st.text(), st.just("")),
    min_size=1,
)
RIGHT = {"type": "contains", "contains": ["yes"]}
HALF = {"type": "contains", "contains": ["yes", "no"]}
WRONG = {"type": "exact"}


async def fails(task: Task, response: str) -> Score:
    raise GraderError("broken")


@given(SCORES)
def test_all_and_any_stay_within_the_bounds_of_their_parts(scores):
    softs = [score.soft for score in scores]
    all_of, any_of = combined(ALL, scores), combined(ANY, scores)
    assert min(softs) - 1e-12 <= all_of.soft <= any_of.soft + 1e-12
    assert all_of.hard == min(score.hard for score in scores)
    assert any_of.hard == max(score.hard for score in scores)


@pytest.mark.parametrize(
    ("kind", "parts", "hard", "soft"),
    [
        ("all", [RIGHT, RIGHT], 1, 1),
        ("all", [RIGHT, HALF], 0, 0.75),
        ("any", [WRONG, RIGHT], 1, 1),
        ("any", [WRONG, HALF], 0, 0.5),
    ],
)
def test_combination(grade, kind, parts, hard, soft):
    score = grade(kind, "oh yes", "reference", of=parts)
    assert (score.hard, score.soft) == (hard, soft)


@pytest.mark.parametrize(("hard_at", "hard"), [(0.7, 1), (0.8, 0)])
def test_weighted(grade, hard_at, hard):
    parts = {"of": [RIGHT, WRONG], "weights": [0.7, 0.3], "hard_at": hard_at}
    score = grade("weighted", "yes", "reference", **parts)
    assert (score.hard, score.soft) == (hard, pytest.approx(0.7))


def test_reason_is_that_of_the_parts_that_failed(grade):
    score = grade("all", "yes", "ref", of=[RIGHT, WRONG, {"type": "regex", "pattern": "z"}])
    assert score.reason == "expected 'ref', got 'yes'; nothing matches 'z'"
    inner = {"type": "any", "of": [WRONG, RIGHT]}
    assert "expected" not in grade("all", "yes", "ref", of=[inner, RIGHT]).reason


def test_parts_are_graded_at_the_same_time(make_task):
    async def run() -> Score:
        barrier = asyncio.Barrier(2)

        async def waits(task: Task, response: str) -> Score:
            await barrier.wait()
            return Score(1, 1, "met", response)

        return await asyncio.wait_for(grade_parts(ALL, (waits, waits), make_task(), "x"), 60)

    assert asyncio.run(run()).hard == 1


def test_failing_grader_stops_the_others_and_is_reported_itself(make_task):
    cancelled = []

    async def hangs(task: Task, response: str) -> Score:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        raise AssertionError

    with pytest.raises(GraderError, match="broken"):
        asyncio.run(grade_parts(ALL, (hangs, fails), make_task(), "x"))
    assert cancelled == [True]

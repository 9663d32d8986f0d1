from collections.abc import Callable

import pytest

from skillopt_ci.scorers.base import Score

Grade = Callable[..., Score]


@pytest.mark.parametrize(
    ("keys", "response", "hard", "soft"),
    [
        ({"contains": ["a", "b"]}, "ab", 1, 1),
        ({"contains": ["a", "b"]}, "ax", 0, 0.5),
        ({"contains": ["a", "b"], "match": "any"}, "ax", 1, 1),
        ({"contains": ["a", "b"], "match": "any"}, "x", 0, 0),
        ({"contains": ["A"]}, "a", 0, 0),
        ({"contains": ["STRASSE"], "ignore_case": True}, "straße", 1, 1),
        ({"not_contains": ["bad"]}, "good", 1, 1),
        ({"not_contains": ["bad"]}, "", 0, 0),
        ({"contains": ["a"], "not_contains": ["x"]}, "ax", 0, 0.5),
        ({"contains": ["a", "b"], "match": "any", "not_contains": ["x"]}, "x", 0, 0),
    ],
)
def test_contains(grade: Grade, keys: dict[str, object], response: str, hard: float, soft: float):
    score = grade("contains", response, **keys)
    assert (score.hard, score.soft) == (hard, soft)


def test_references_are_searched_when_no_texts_are_given(grade: Grade):
    assert grade("contains", "one two", "one", "two").hard == 1


def test_contains_says_what_is_missing_and_what_is_forbidden(grade: Grade):
    score = grade("contains", "x", contains=["a", "b"], not_contains=["x"])
    assert score.reason == "lacks 'a' and 'b'; contains the forbidden 'x'"


@pytest.mark.parametrize(
    ("keys", "response", "hard"),
    [
        ({"pattern": r"^\d+$"}, "12", 1),
        ({"pattern": r"^\d+$"}, "a\n12", 0),
        ({"pattern": r"^\d+$", "multiline": True}, "a\n12", 1),
        ({"pattern": "abc"}, "ABC", 0),
        ({"pattern": "abc", "ignore_case": True}, "ABC", 1),
        ({"pattern": "sorry", "negate": True}, "here", 1),
        ({"pattern": "sorry", "negate": True}, "sorry", 0),
        ({"pattern": "sorry", "negate": True}, " ", 0),
    ],
)
def test_regex(grade: Grade, keys: dict[str, object], response: str, hard: float):
    assert grade("regex", response, **keys).hard == hard


def test_regex_says_what_it_found(grade: Grade):
    assert grade("regex", "no 12", pattern=r"\d+", negate=True).reason == "'12' must not occur"

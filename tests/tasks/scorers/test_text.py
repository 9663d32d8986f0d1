from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers.base import Score
from skillopt_ci.scorers.text import anls, normalized, token_f1

Grade = Callable[..., Score]
WORDS = st.text("aAbc the.,")


@given(WORDS, WORDS)
def test_f1_is_symmetric_and_between_0_and_1(left: str, right: str):
    assert token_f1(left, right) == token_f1(right, left)
    assert 0 <= token_f1(left, right) <= 1


@given(st.text())
def test_f1_of_a_text_with_itself_is_1(text: str):
    assert token_f1(text, text) == 1


@given(st.text())
def test_normalisation_is_stable(text: str):
    once = normalized(text)
    assert normalized(once) == once or not once.strip()


@given(st.text(max_size=20), st.text(max_size=20), st.floats(0, 1))
def test_anls_is_symmetric_and_between_0_and_1(left: str, right: str, threshold: float):
    score = anls(left, right, threshold)
    assert score == anls(right, left, threshold)
    assert 0 <= score <= 1


@given(st.text(), st.floats(0, 1))
def test_anls_of_a_text_with_itself_is_1(text: str, threshold: float):
    assert anls(text, text, threshold) == 1


@pytest.mark.parametrize(
    ("left", "right", "score"),
    [
        ("Hello  World", "hello world", 1),
        ("", "", 1),
        ("", "a", 0),
        ("abcd", "abxd", 0.75),
        ("ab", "ax", 0),
    ],
)
def test_anls(left: str, right: str, score: float):
    assert anls(left, right, 0.5) == score


@pytest.mark.parametrize(
    ("answer", "reference", "f1"),
    [
        ("a cat sat", "the cat", 2 / 3),
        ("", "", 1),
        ("", "cat", 0),
        ("cat", "", 0),
        ("dog", "cat", 0),
    ],
)
def test_f1(answer: str, reference: str, f1: float):
    assert token_f1(answer, reference) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("kind", "response", "references", "hard"),
    [
        ("exact", " a \n", ["b", "a"], 1),
        ("exact", "A", ["a"], 0),
        ("exact", "", [""], 1),
        ("normalized", "The Cat!", ["cat"], 1),
        ("normalized", "cats", ["cat"], 0),
        ("normalized", "", ["A"], 0),
        ("normalized", "a", ["A"], 1),
        ("f1", "the cat", ["Cat"], 1),
        ("f1", "", ["cat"], 0),
        ("anls", "abc", ["xyz", "abc"], 1),
        ("anls", "", ["abc"], 0),
    ],
)
def test_hard_score(grade: Grade, kind: str, response: str, references: list[str], hard: float):
    assert grade(kind, response, *references).hard == hard


def test_f1_gives_partial_credit_for_the_best_reference(grade: Grade):
    score = grade("f1", "red cat", "dog", "blue cat")
    assert (score.hard, score.soft) == (0, 0.5)


def test_anls_near_miss_is_soft_and_explained(grade: Grade):
    score = grade("anls", "abcdefghiX", "abcdefghij")
    assert (score.hard, score.soft) == (0, 0.9)
    assert score.reason == "expected 'abcdefghij', got 'abcdefghiX'; ANLS 0.90"


def test_anls_hard_threshold_is_configurable(grade: Grade):
    assert grade("anls", "abcdefghiX", "abcdefghij", hard_at=0.9).hard == 1


def test_reason_names_expectation_and_answer(grade: Grade):
    score = grade("exact", "so: <answer>2026</answer>", "2027", "2028", answer="tag")
    assert score.reason == "expected '2027' (or 1 other), got '2026'"
    assert score.answer == "2026"

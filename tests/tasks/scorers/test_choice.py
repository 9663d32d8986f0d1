from collections.abc import Callable

import pytest

from skillopt_ci.scorers.base import Score
from skillopt_ci.tasks.task import Task

Grade = Callable[..., Score]
CHOICES = {"A": "Paris", "B": "New York", "C": "None of these"}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("B", "B"),
        (" b. ", "B"),
        ("(B)", "B"),
        ("**B**", "B"),
        ("B):", "B"),
        ("new  york", "B"),
        ("B. New York", "B"),
        ("B because it is big", "B"),
        ("A", "A"),
        ("Boston", "BOSTON"),
    ],
)
def test_label_is_read_from_the_answer(grade: Grade, answer: str, label: str):
    score = grade("choice", answer, "B", choices=CHOICES)
    assert score.hard == (label == "B")
    assert label in score.reason


@pytest.mark.parametrize(
    ("response", "label"),
    [
        ("Answer: B", "B"),
        ("I weighed all four.\n\n**Answer:** (B)", "B"),
        ("**Final answer: B**", "B"),
        ("Answer: $B$", "B"),
        ("answer: b", "B"),
        ("Answer: New York.", "NEW YORK"),
        ("Answer: new york", "B"),
        ("Answer: B, since it is big", "B"),
        ("Answer: A\nNo, wait.\nAnswer: B", "B"),
        ("Answer: B\nNo, wait.\nAnswer: A", "A"),
        ("A is tempting.\nAnswer: B", "B"),
        ("Answer: E", "E"),
        ("My answer would be B", "MY"),
    ],
)
def test_the_last_declared_answer_is_the_one(grade: Grade, response: str, label: str) -> None:
    score = grade("choice", response, "B", choices=CHOICES)
    assert score.hard == (label == "B")


def test_a_declared_answer_needs_no_known_choices(grade: Grade) -> None:
    assert grade("choice", "It is clear.\n**Answer:** (d)", "D").hard == 1
    assert grade("choice", "It is clear.\nAnswer: E", "D").hard == 0


def test_empty_answer_chooses_nothing(grade: Grade):
    score = grade("choice", "", "B", choices=CHOICES)
    assert (score.hard, score.reason) == (0, "expected choice 'B', got an empty answer")


def test_reference_may_be_the_text_of_a_choice(grade: Grade):
    assert grade("choice", "A", "paris", choices=CHOICES).hard == 1


@pytest.mark.parametrize("choices", [CHOICES, list(CHOICES.values())])
def test_choices_may_come_from_the_task(
    grade: Grade, make_task: Callable[..., Task], choices: object
):
    task = make_task("C", metadata={"choices": choices})
    assert grade("choice", "none of these", task=task).hard == 1


def test_without_choices_labels_are_compared(grade: Grade):
    assert grade("choice", "d)", "D").hard == 1

from collections.abc import Callable

import pytest

from skillopt_ci.tasks.scorers.score import Score
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

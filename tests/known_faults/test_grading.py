"""A grade says what the answer says."""

import pytest

CHOICES = {"A": "Paris", "B": "New York", "C": "Rome"}


@pytest.mark.parametrize(
    "answer",
    [
        "A good reason makes it C",
        "A city like Rome",
        "A close call between B and C",
        "A, but C is better",
        "A, C because both are cities",
        "A - C",
        "A, no: C",
    ],
)
def test_a_sentence_that_begins_with_a_or_names_other_labels_does_not_choose_a(answer):
    from skillopt_ci.config.scorers import ChoiceScorer
    from skillopt_ci.messages import Message
    from skillopt_ci.scorers.text import grade_choice
    from skillopt_ci.tasks.task import Task

    task = Task("t", (Message("user", "Which?"),), references=("A",))
    spec = ChoiceScorer(type="choice", choices=CHOICES)
    assert grade_choice(spec, task, answer).hard == 0


@pytest.mark.parametrize("reference", ["A, C", "A and C", "A C", "A | C", "A, E"])
def test_several_labels_are_all_asked_for_or_refused(reference):
    from skillopt_ci.config.scorers import ChoiceScorer
    from skillopt_ci.messages import Message
    from skillopt_ci.scorers.text import check_choice_references, grade_choice
    from skillopt_ci.tasks.task import Task

    task = Task("t", (Message("user", "Which?"),), references=(reference,))
    spec = ChoiceScorer(type="choice", choices=CHOICES)
    if check_choice_references(spec, task) is None:
        assert grade_choice(spec, task, "A").hard == 0
        assert grade_choice(spec, task, "A, C").hard == 1

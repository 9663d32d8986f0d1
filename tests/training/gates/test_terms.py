"""What is compared, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.training.measure import Tally
from skillopt_ci.training.sequential_test import rotated, setup

PLANNED = ("a", "b", "c", "d")


def measured(**tasks: float) -> Measurement:
    scores = {task: (one, one) for task, one in tasks.items()}
    mean = sum(tasks.values()) / len(tasks)
    return Measurement(hard=mean, soft=mean, score=mean, tasks=scores, words=3)


CURRENT = measured(a=1.0, b=0.0, c=1.0, d=0.0)


def test_tasks_that_are_seldom_solved_come_first() -> None:
    past = [{"d": Tally(1.0, 1.0), "c": Tally(0.0, 0.0)}]
    terms = setup("# S", PLANNED, CURRENT, CURRENT, past, Evaluation())
    assert terms.order == ("b", "c", "d", "a")


def test_tasks_that_some_side_has_no_score_of_come_last_and_do_not_count() -> None:
    best = measured(a=1.0, c=0.0, d=0.0)
    terms = setup("# S", PLANNED, CURRENT, best, (), Evaluation())
    assert terms.order[-1] == "b"
    assert terms.eligible == {"a", "c", "d"}


def test_reminders_are_judged_strictly_and_may_tie() -> None:
    evaluation = Evaluation(gate=GateConfig(policy="paired"))
    notes = setup("# S", PLANNED, CURRENT, CURRENT, (), evaluation, notes_only=True)
    edits = setup("# S", PLANNED, CURRENT, CURRENT, (), evaluation)
    assert (notes.settings.policy, notes.tie_wins) == ("strict", True)
    assert (edits.settings.policy, edits.tie_wins) == ("paired", False)


def test_an_open_gate_measures_everything() -> None:
    terms = setup("# S", PLANNED, CURRENT, CURRENT, (), Evaluation(use_gate=False))
    assert (terms.settings.policy, terms.settings.early_stop) == ("strict", False)


def test_a_shorter_document_may_tie_where_that_is_preferred() -> None:
    evaluation = Evaluation(ties="prefer_shorter")
    shorter = setup("# S", PLANNED, CURRENT, CURRENT, (), evaluation)
    longer = setup("# S with words", PLANNED, CURRENT, CURRENT, (), evaluation)
    assert (shorter.tie_wins, longer.tie_wins) == (True, False)


def test_density_puts_a_candidate_ahead() -> None:
    evaluation = Evaluation(use_semantic_density=True, semantic_density_weight=0.5)
    terms = setup("ALWAYS verify", PLANNED, CURRENT, CURRENT, (), evaluation)
    assert terms.bonus == pytest.approx(0.5)


@given(count=st.integers(1, 30), size=st.integers(1, 40), turns=st.integers(1, 12))
def test_rotation_asks_all_tasks_equally_often(count: int, size: int, turns: int) -> None:
    tasks = [str(number) for number in range(count)]
    parts = [rotated(tasks, size, turn) for turn in range(turns)]
    assert all(len(set(part)) == len(part) == min(size, count) for part in parts)
    asked = [sum(task in part for part in parts) for task in tasks]
    assert max(asked) - min(asked) <= 1


def test_all_tasks_are_taken_unless_a_part_is_asked_for() -> None:
    assert rotated(PLANNED, 0, 3) == PLANNED
    assert rotated(PLANNED, 3, 1) == ("d", "a", "b")

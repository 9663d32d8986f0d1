"""What is said of the first measurement: everything solved, nothing, or only errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from skillopt_ci.errors import ExitCode, NothingToLearn
from skillopt_ci.ledger.records import Measurement, Snapshot, State, Usage
from skillopt_ci.rollout.types import Status
from skillopt_ci.training.baseline import (
    NEARLY,
    all_solved,
    first_impression,
    learns_nothing,
    no_score_is_higher,
    refuse_to_learn_nothing,
)
from skillopt_ci.training.measure import all_empty
from skillopt_ci.training.review_comments import ReviewerNote
from skillopt_ci.training.state import Settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillopt_ci.rollout.types import Rollout
    from tests.conftest import Checkout

    MakeRollout = Callable[..., Rollout]

NOTE = ReviewerNote(id="review-1", author="ada", text="Be brief.")


def measured(solved: int, of: int, errors: tuple[str, ...] = ()) -> Measurement:
    tasks = {f"s{number}": (float(number < solved),) * 2 for number in range(of)}
    score = solved / of if of else 0.0
    return Measurement(hard=score, soft=score, score=score, tasks=tasks, errors=errors)


def snapshot(measurement: Measurement) -> Snapshot:
    return Snapshot(sha256="a" * 64, step=0, origin="initial", measurement=measurement)


def standing(measurement: Measurement, **changes: Any) -> Settled:
    one = snapshot(measurement)
    state = State(
        run="demo",
        skill="SKILL.md",
        step=0,
        epoch=0,
        current=one,
        best=one,
        measured_under="f" * 64,
        config_sha256="c" * 64,
        usage=Usage(),
    )
    return Settled("0" * 40, None, "# Skill\n", state.model_copy(update=changes), ())


def test_all_solved_is_nothing_to_learn_and_says_what_to_do(checkout: Checkout) -> None:
    with pytest.raises(NothingToLearn, match="all 4 selection tasks are solved") as refusal:
        refuse_to_learn_nothing(checkout.session(), standing(measured(4, 4)))
    assert refusal.value.exit_code is ExitCode.NOTHING_TO_DO
    assert "Put harder tasks" in (refusal.value.hint or "")


def test_what_was_not_measured_is_not_called_solved(checkout: Checkout) -> None:
    some = measured(4, 4, errors=("s8", "s9"))
    message = r"all 4 selection tasks that were measured \(2 were not\) are solved"
    with pytest.raises(NothingToLearn, match=message):
        refuse_to_learn_nothing(checkout.session(), standing(some))


@pytest.mark.parametrize(
    "measurement",
    [measured(3, 4), measured(0, 4), measured(0, 0, errors=("s1", "s2"))],
    ids=["one unsolved", "none solved", "errors only"],
)
def test_anything_else_is_trained_on(checkout: Checkout, measurement: Measurement) -> None:
    session, start = checkout.session(), standing(measurement)
    refuse_to_learn_nothing(session, start)
    assert not learns_nothing(session, start)


def test_a_skill_that_came_to_solve_everything_is_trained_on(checkout: Checkout) -> None:
    assert not learns_nothing(checkout.session(), standing(measured(4, 4), step=1))


def test_a_reviewer_who_asks_for_something_is_heard(checkout: Checkout) -> None:
    session = replace(checkout.session(), notes=(NOTE,))
    assert not learns_nothing(session, standing(measured(4, 4)))
    assert learns_nothing(session, standing(measured(4, 4), heard_notes=(NOTE.id,)))


@pytest.mark.parametrize(
    ("override", "strict"),
    [
        ("evaluation.ties=reject", True),
        ("evaluation.ties=prefer_shorter", False),
        ("evaluation.use_gate=false", False),
        ("evaluation.use_semantic_density=true", False),
        ("optimizer.use_skill_aware_reflection=true", False),
    ],
)
def test_only_where_a_higher_score_is_the_only_way_in(
    checkout: Checkout, override: str, strict: bool
) -> None:
    config = checkout.session(override).config
    assert no_score_is_higher(config, snapshot(measured(4, 4))) is strict


def test_a_mean_that_rounding_keeps_below_one_is_one(checkout: Checkout) -> None:
    thirds = measured(3, 3).model_copy(update={"score": sum([1 / 3] * 3) - 1e-12})
    assert no_score_is_higher(checkout.session().config, snapshot(thirds))


@pytest.mark.parametrize(
    ("measurement", "level", "text"),
    [
        (measured(39, 40), "warning", "scores 0.975 before any training"),
        (measured(19, 20), "warning", f"scores {NEARLY:.3f} before any training"),
        (measured(0, 4), "info", "No selection task was solved"),
    ],
)
def test_the_first_impression(measurement: Measurement, level: str, text: str) -> None:
    note = first_impression(measurement)
    assert note is not None
    assert (note.level, text in note.text) == (level, True)


@pytest.mark.parametrize(
    "measurement",
    [measured(4, 4), measured(2, 4), measured(18, 20), measured(0, 0, errors=("s1",))],
    ids=["all solved, said elsewhere", "half", "below nearly", "errors only"],
)
def test_no_impression_worth_a_word(measurement: Measurement) -> None:
    assert first_impression(measurement) is None


def test_a_little_soft_score_is_something() -> None:
    partly = measured(0, 2).model_copy(update={"tasks": {"s0": (0.0, 0.25), "s1": (0.0, 0.0)}})
    assert first_impression(partly) is None


def test_a_first_step_without_failures_is_told(make_rollout: MakeRollout) -> None:
    solved = [make_rollout(name, hard=1.0) for name in ("a", "b")]
    note = all_solved(1, solved)
    assert note is not None
    assert "All 2 training tasks" in note.text
    assert all_solved(2, solved) is None
    assert all_solved(1, [*solved, make_rollout("c")]) is None
    assert all_solved(1, []) is None


def test_what_failed_of_itself_is_not_called_solved(make_rollout: MakeRollout) -> None:
    broken = make_rollout("b", status=Status.ERROR)
    assert all_solved(1, [make_rollout("a", hard=1.0), broken]) is None
    assert all_solved(1, [broken]) is None


@pytest.mark.parametrize(("empty", "scored", "told"), [(4, 4, True), (3, 4, False), (0, 0, False)])
def test_empty_answers_are_told_if_all_are(empty: int, scored: int, told: bool) -> None:
    note = all_empty(empty, scored)
    assert (note is not None) is told
    if note is not None:
        assert "max_output_tokens" in note.text

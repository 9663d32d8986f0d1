import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Optimizer
from skillopt_ci.training.plan import analyst_budget, edit_budget, lr_control


def budgets(optimizer: Optimizer, total: int) -> list[int]:
    return [edit_budget(optimizer, step, total) for step in range(1, total + 1)]


def test_constant_stays_at_the_maximum() -> None:
    optimizer = Optimizer(learning_rate=8, lr_scheduler="constant")
    assert budgets(optimizer, 3) == [8, 8, 8]


def test_linear_falls_evenly_to_the_minimum() -> None:
    optimizer = Optimizer(learning_rate=8, min_learning_rate=2, lr_scheduler="linear")
    assert budgets(optimizer, 6) == [7, 6, 5, 4, 3, 2]


def test_cosine_falls_slowly_then_fast_then_slowly() -> None:
    optimizer = Optimizer(learning_rate=16, min_learning_rate=2, lr_scheduler="cosine")
    assert budgets(optimizer, 8) == [15, 14, 12, 9, 6, 4, 3, 2]


def test_halves_are_rounded_to_the_even_number() -> None:
    optimizer = Optimizer(learning_rate=3, min_learning_rate=2, lr_scheduler="linear")
    assert budgets(optimizer, 2) == [2, 2]


@pytest.mark.parametrize("scheduler", ["constant", "linear", "cosine"])
def test_a_run_of_one_step_keeps_the_maximum(scheduler: str) -> None:
    optimizer = Optimizer.model_validate({"learning_rate": 4, "lr_scheduler": scheduler})
    assert edit_budget(optimizer, 1, 1) == 4


def test_steps_beyond_the_last_stay_at_the_minimum() -> None:
    optimizer = Optimizer(learning_rate=9, min_learning_rate=2, lr_scheduler="cosine")
    assert edit_budget(optimizer, 15, 10) == 2


def test_an_unset_minimum_never_lifts_a_smaller_maximum() -> None:
    assert budgets(Optimizer(learning_rate=1), 4) == [1, 1, 1, 1]


def test_a_maximum_of_zero_applies_nothing() -> None:
    assert budgets(Optimizer(learning_rate=0), 3) == [0, 0, 0]


@given(
    low=st.integers(0, 20),
    more=st.integers(0, 20),
    total=st.integers(1, 60),
    scheduler=st.sampled_from(["constant", "linear", "cosine"]),
)
def test_budgets_fall_and_stay_within_bounds(
    low: int, more: int, total: int, scheduler: str
) -> None:
    optimizer = Optimizer.model_validate(
        {"learning_rate": low + more, "min_learning_rate": low, "lr_scheduler": scheduler}
    )
    found = budgets(optimizer, total)
    assert found == sorted(found, reverse=True)
    assert all(low <= budget <= low + more for budget in found)


@pytest.mark.parametrize(
    ("options", "control", "analysts"),
    [
        ({}, "fixed", 4),
        ({"lr_scheduler": "autonomous"}, "autonomous", 4),
        ({"lr_control_mode": "autonomous"}, "autonomous", 4),
        ({"lr_control_mode": "none"}, "none", None),
        ({"lr_control_mode": "none", "lr_scheduler": "autonomous"}, "none", None),
        ({"skill_update_mode": "full_rewrite_minibatch"}, "none", None),
        (
            {"skill_update_mode": "full_rewrite_minibatch", "lr_control_mode": "autonomous"},
            "none",
            None,
        ),
        ({"skill_update_mode": "rewrite_from_suggestions"}, "fixed", 4),
    ],
)
def test_somebody_or_nobody_is_in_control(
    options: dict[str, str], control: str, analysts: int | None
) -> None:
    optimizer = Optimizer.model_validate({"learning_rate": 4, **options})
    assert (lr_control(optimizer), analyst_budget(optimizer)) == (control, analysts)

"""Published values: Newcombe 1998 (Stat. Med. 17), table I, method 3; and the cubic's own roots."""

from __future__ import annotations

import math
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_values import make_rollout

from skillopt_ci.rollout.metrics import aggregate, paired
from skillopt_ci.rollout.types import Status
from skillopt_ci.stats import wilson

SHARES = st.floats(0, 1)
SIZES = st.integers(1, 2_000)
SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([0.0, 0.5, 1.0]))


@pytest.mark.parametrize(
    ("solved", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_are_those_of_the_literature(
    solved: int, n: int, low: float, high: float
) -> None:
    found = wilson(solved / n, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(SHARES, SIZES)
def test_the_interval_holds_the_mean_and_stays_within_0_and_1(share: float, n: int) -> None:
    found = wilson(share, n)
    assert 0 <= found.low <= share + 1e-12
    assert share - 1e-12 <= found.high <= 1


@given(SHARES, SHARES, SIZES)
def test_a_higher_mean_has_no_lower_bounds(one: float, other: float, n: int) -> None:
    low, high = wilson(min(one, other), n), wilson(max(one, other), n)
    assert low.low <= high.low + 1e-12
    assert low.high <= high.high + 1e-12


@given(SHARES, SIZES)
def test_more_tasks_make_it_narrower_and_more_confidence_wider(share: float, n: int) -> None:
    width = wilson(share, n).high - wilson(share, n).low
    assert wilson(share, 4 * n).high - wilson(share, 4 * n).low < width
    assert wilson(share, n, 0.99).high - wilson(share, n, 0.99).low > width


@given(SHARES, SIZES)
def test_its_ends_are_where_the_score_test_is_just_not_significant(share: float, n: int) -> None:
    for end in (wilson(share, n).low, wilson(share, n).high):
        if 1e-6 < end < 1 - 1e-6:
            z = abs(share - end) / math.sqrt(end * (1 - end) / n)
            assert z == pytest.approx(1.959964, rel=1e-4)


def test_without_a_task_nothing_is_known() -> None:
    found = wilson(0.0, 0)
    assert (found.low, found.high) == (0.0, 1.0)


def test_means_are_over_what_was_measured() -> None:
    rollouts = [
        make_rollout(1.0, soft=0.5),
        make_rollout(0.0, Status.REFUSED),
        make_rollout(0.0, Status.ERROR),
        make_rollout(0.0, Status.GRADER_ERROR),
    ]
    found = aggregate(rollouts)
    assert (found.hard, found.soft, found.n, found.errors) == (0.5, 0.25, 2, 2)


def test_nothing_measured_is_zero_on_no_tasks() -> None:
    found = aggregate([make_rollout(0.0, Status.ERROR)])
    assert (found.hard, found.soft, found.n, found.errors) == (0.0, 0.0, 0, 1)


@given(SCORES, SCORES)
def test_a_comparison_is_the_mean_over_shared_tasks(
    first: dict[str, float], second: dict[str, float]
) -> None:
    shared = set(first) & set(second)
    found = paired(first, second)
    assert found.n == len(shared)
    expected = mean(second[task] - first[task] for task in shared) if shared else 0
    assert found.mean == pytest.approx(expected)


@given(SCORES, SCORES)
def test_turning_a_comparison_around_turns_its_sign(
    first: dict[str, float], second: dict[str, float]
) -> None:
    one, other = paired(first, second), paired(second, first)
    assert one.mean == pytest.approx(-other.mean)
    assert (set(one.fixed), set(one.broken)) == (set(other.broken), set(other.fixed))
    assert one.standard_error == pytest.approx(other.standard_error)


def test_the_standard_error_is_that_of_the_differences() -> None:
    found = paired({"a": 0, "b": 0, "c": 1, "d": 1}, {"a": 1, "b": 0, "c": 1, "d": 1})
    assert found.standard_error == pytest.approx(0.25)
    assert (found.fixed, found.broken) == (("a",), ())


@pytest.mark.parametrize("tasks", [{}, {"a": 1.0}])
def test_below_two_tasks_there_is_no_standard_error(tasks: dict[str, float]) -> None:
    assert paired(tasks, tasks).standard_error is None

"""The sign-flip test: exact where it counts, and never more false alarms than it says."""

import random
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_ci.stats import normal_threshold, sign_flip_p

parts = st.integers(-12, 12).map(lambda n: Fraction(n, 12))


def enumerated(differences: list[Fraction]) -> float:
    """The definition, one flip of signs after the other."""
    told = [one for one in differences if one]
    least, flips = sum(told), list(product((1, -1), repeat=len(told)))
    sums = [sum(s * d for s, d in zip(signs, told, strict=True)) for signs in flips]
    return sum(total >= least for total in sums) / len(flips)


@given(st.lists(parts, max_size=9))
def test_it_counts_the_flips(differences: list[Fraction]) -> None:
    assert sign_flip_p(differences) == pytest.approx(enumerated(differences))


def test_all_on_one_side_is_as_likely_as_tosses_of_a_coin() -> None:
    assert sign_flip_p([Fraction(1)] * 5) == 1 / 32
    assert sign_flip_p([Fraction(1), Fraction(1), Fraction(-1)]) == 0.5


def test_ties_say_nothing() -> None:
    assert sign_flip_p([]) == 1.0
    assert sign_flip_p([Fraction(0)] * 7) == 1.0
    assert sign_flip_p([Fraction(0), Fraction(1), Fraction(0)]) == 0.5


@given(st.lists(parts, min_size=1, max_size=10), st.data())
def test_a_better_result_is_never_less_convincing(
    differences: list[Fraction], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(differences) - 1))
    better = data.draw(parts.filter(lambda one: one >= differences[place]))
    improved = [*differences[:place], better, *differences[place + 1 :]]
    assert sign_flip_p(improved) <= sign_flip_p(differences) + 1e-12


def test_counting_passes_over_into_the_normal_approximation() -> None:
    counted = [Fraction(1)] * 36 + [Fraction(-1)] * 24
    approximated = [Fraction(1)] * 37 + [Fraction(-1)] * 24
    assert sign_flip_p(counted) == pytest.approx(0.0775, abs=0.001)
    assert sign_flip_p(approximated) == pytest.approx(0.048, abs=0.003)


def test_the_threshold_is_where_the_approximation_turns() -> None:
    differences = [Fraction(1)] * 60 + [Fraction(-1)] * 40
    assert normal_threshold(100, sign_flip_p(differences)) == pytest.approx(20)


@settings(max_examples=8, deadline=None)
@given(
    rate=st.sampled_from([0.1, 0.3, 0.5, 0.8]),
    alpha=st.sampled_from([0.05, 0.2, 0.4]),
)
def test_equal_skills_are_told_apart_no_more_often_than_alpha(rate: float, alpha: float) -> None:
    dice = random.Random(f"{rate}/{alpha}")
    trials = 600
    wrong = 0
    for _ in range(trials):
        differences = [Fraction((dice.random() < rate) - (dice.random() < rate)) for _ in range(30)]
        wrong += sign_flip_p(differences) <= alpha
    slack = 3 * (alpha * (1 - alpha) / trials) ** 0.5
    assert wrong / trials <= alpha + slack

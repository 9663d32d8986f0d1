import random
from fractions import Fraction
from itertools import product
from math import inf, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_ci.stats import (
    Effect,
    Observation,
    balanced_subsets,
    believe,
    normal_threshold,
    sign_flip_p,
)

powers = st.sampled_from([4, 8, 16, 32])


@given(items=st.integers(3, 40), runs=powers, seed=st.integers())
def test_every_change_is_in_half_of_the_runs(items: int, runs: int, seed: int) -> None:
    subsets = balanced_subsets(items, runs, seed)
    if len(subsets) == runs:
        counts = {sum(n in one for one in subsets) for n in range(items)}
        assert counts == {runs // 2}


@given(runs=powers, seed=st.integers(), data=st.data())
def test_two_changes_are_together_in_a_quarter_of_the_runs(
    runs: int, seed: int, data: st.DataObject
) -> None:
    items = data.draw(st.integers(runs.bit_length(), runs - 1))
    subsets = balanced_subsets(items, runs, seed)
    one, other = data.draw(st.permutations(range(items)))[:2]
    if len(subsets) == runs:
        assert sum(one in each and other in each for each in subsets) == runs // 4


@given(items=st.integers(0, 4), seed=st.integers())
def test_few_changes_are_tried_in_all_ways(items: int, seed: int) -> None:
    subsets = balanced_subsets(items, 16, seed)
    assert len(set(subsets)) == len(subsets)
    assert len(subsets) == (2**items if items else 0)


@given(items=st.integers(0, 30), runs=st.integers(0, 40), seed=st.integers())
def test_no_subset_comes_twice_and_none_is_made_up(items: int, runs: int, seed: int) -> None:
    subsets = balanced_subsets(items, runs, seed)
    assert len(set(subsets)) == len(subsets) <= max(0, runs)
    assert all(one <= set(range(items)) for one in subsets)


def test_the_seed_decides() -> None:
    assert balanced_subsets(9, 16, 1) == balanced_subsets(9, 16, 1)
    assert balanced_subsets(9, 16, 1) != balanced_subsets(9, 16, 2)


def test_without_observations_the_prior_stands() -> None:
    found = believe([], 0.1, ["a", "b"]).effect({"a": 1})
    assert (found.mean, found.sd, found.helpful) == (0.0, pytest.approx(0.1), 0.5)


@given(
    value=st.floats(-1, 1),
    variance=st.floats(0.001, 1),
    prior=st.floats(0.01, 1),
)
def test_one_observation_of_one_effect(value: float, variance: float, prior: float) -> None:
    found = believe([Observation({"a": 1.0}, value, variance)], prior).effect({"a": 1.0})
    share = prior**2 / (prior**2 + variance)
    assert found.mean == pytest.approx(share * value)
    assert found.sd == pytest.approx(sqrt(share * variance))


def test_a_sum_that_is_known_says_little_about_its_parts() -> None:
    belief = believe([Observation({"a": 1.0, "b": 1.0}, 0.2, 1e-6)], 0.1)
    assert belief.effect({"a": 1.0}).mean == pytest.approx(0.1, abs=1e-3)
    assert belief.effect({"a": 1.0}).sd == pytest.approx(0.1 / sqrt(2), abs=1e-3)
    assert belief.effect({"a": 1.0, "b": 1.0}).sd == pytest.approx(0.001, rel=0.01)
    assert belief.effect({"a": 1.0, "b": -1.0}).mean == pytest.approx(0, abs=1e-9)


def test_the_order_of_observations_does_not_matter() -> None:
    dice = random.Random(3)
    seen = [
        Observation({n: dice.choice((0.0, 1.0)) for n in "abcde"}, dice.gauss(0, 1), 0.5)
        for _ in range(30)
    ]
    one, other = believe(seen, 0.3), believe(seen[::-1], 0.3)
    assert one.means == pytest.approx(other.means)


def test_enough_observations_find_the_truth() -> None:
    dice, truth = random.Random(5), {"a": 0.1, "b": -0.05, "c": 0.0, "d": 0.2}
    seen = []
    for _ in range(3000):
        weights = {name: float(dice.random() < 0.5) for name in truth}
        value = sum(weights[name] * truth[name] for name in truth) + dice.gauss(0, 0.3)
        seen.append(Observation(weights, value, 0.09))
    belief = believe(seen, 1.0)
    for name, effect in truth.items():
        found = belief.effect({name: 1.0})
        assert abs(found.mean - effect) < 4 * found.sd < 0.1


def test_certainty_has_no_spread() -> None:
    assert Effect(0.0, 0.0).helpful == 0.5
    assert Effect(1.0, 1e-9).helpful == 1.0
    assert Effect(-inf, 1.0).helpful == 0.0


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

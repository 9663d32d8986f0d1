"""Beliefs about effects are those of the normal distribution's textbook update."""

import random
from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.stats import Effect, Observation, believe


def test_without_observations_the_prior_stands() -> None:
    found = believe([], 2, 0.1).effect([1, 0])
    assert (found.mean, found.sd, found.helpful) == (0.0, pytest.approx(0.1), 0.5)


@given(
    value=st.floats(-1, 1),
    variance=st.floats(0.001, 1),
    prior=st.floats(0.01, 1),
)
def test_one_observation_of_one_effect(value: float, variance: float, prior: float) -> None:
    found = believe([Observation([1.0], value, variance)], 1, prior).effect([1.0])
    share = prior**2 / (prior**2 + variance)
    assert found.mean == pytest.approx(share * value)
    assert found.sd == pytest.approx(sqrt(share * variance))


def test_a_sum_that_is_known_says_little_about_its_parts() -> None:
    belief = believe([Observation([1.0, 1.0], 0.2, 1e-6)], 2, 0.1)
    assert belief.effect([1.0, 0.0]).mean == pytest.approx(0.1, abs=1e-3)
    assert belief.effect([1.0, 0.0]).sd == pytest.approx(0.1 / sqrt(2), abs=1e-3)
    assert belief.effect([1.0, 1.0]).sd == pytest.approx(0.001, rel=0.01)
    assert belief.effect([1.0, -1.0]).mean == pytest.approx(0, abs=1e-9)


def test_the_order_of_observations_does_not_matter() -> None:
    dice = random.Random(3)
    seen = [
        Observation([dice.choice((0.0, 1.0)) for _ in range(5)], dice.gauss(0, 1), 0.5)
        for _ in range(30)
    ]
    one, other = believe(seen, 5, 0.3), believe(seen[::-1], 5, 0.3)
    assert one.means == pytest.approx(other.means)


def test_enough_observations_find_the_truth() -> None:
    dice, truth = random.Random(5), (0.1, -0.05, 0.0, 0.2)
    seen = []
    for _ in range(3000):
        weights = [float(dice.random() < 0.5) for _ in truth]
        value = sum(w * t for w, t in zip(weights, truth, strict=True)) + dice.gauss(0, 0.3)
        seen.append(Observation(weights, value, 0.09))
    belief = believe(seen, 4, 1.0)
    for place, effect in enumerate(truth):
        found = belief.effect([float(place == n) for n in range(4)])
        assert abs(found.mean - effect) < 4 * found.sd < 0.1


def test_certainty_has_no_spread() -> None:
    assert Effect(0.0, 0.0).helpful == 0.5
    assert Effect(1.0, 1e-9).helpful == 1.0
    assert Effect(-inf, 1.0).helpful == 0.0

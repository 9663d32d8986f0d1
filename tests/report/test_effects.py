import random
from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.report.effects import Effect, Observation, believe


@given(value=st.floats(-1, 1), variance=st.floats(0.001, 1), prior=st.floats(0.01, 1))
def test_one_observation_of_one_effect(value, variance, prior):
    means, shared = believe([Observation({"a": 1.0}, value, variance)], prior)
    share = prior**2 / (prior**2 + variance)
    assert means["a"] == pytest.approx(share * value)
    assert shared["a"]["a"] == pytest.approx(share * variance)


def test_a_sum_that_is_known_says_little_about_its_parts():
    means, shared = believe([Observation({"a": 1.0, "b": 1.0}, 0.2, 1e-6)], 0.1)
    assert means["a"] == pytest.approx(0.1, abs=1e-3)
    assert sqrt(shared["a"]["a"]) == pytest.approx(0.1 / sqrt(2), abs=1e-3)
    assert means["a"] - means["b"] == pytest.approx(0, abs=1e-9)
    of_both = sum(shared[one][other] for one in "ab" for other in "ab")
    assert sqrt(of_both) == pytest.approx(0.001, rel=0.01)


def test_the_order_of_observations_does_not_matter():
    dice = random.Random(3)
    seen = [
        Observation({n: dice.choice((0.0, 1.0)) for n in "abcde"}, dice.gauss(0, 1), 0.5)
        for _ in range(30)
    ]
    (one, _), (other, _) = believe(seen, 0.3), believe(seen[::-1], 0.3)
    assert one == pytest.approx(other)


def test_enough_observations_find_the_truth():
    dice, truth = random.Random(5), {"a": 0.1, "b": -0.05, "c": 0.0, "d": 0.2}
    seen = []
    for _ in range(3000):
        weights = {name: float(dice.random() < 0.5) for name in truth}
        value = sum(weights[name] * truth[name] for name in truth) + dice.gauss(0, 0.3)
        seen.append(Observation(weights, value, 0.09))
    means, shared = believe(seen, 1.0)
    for name, effect in truth.items():
        assert abs(means[name] - effect) < 4 * sqrt(shared[name][name]) < 0.1


def test_certainty_has_no_spread():
    assert Effect(0.0, 0.0).helpful == 0.5
    assert Effect(1.0, 1e-9).helpful == 1.0
    assert Effect(-inf, 1.0).helpful == 0.0

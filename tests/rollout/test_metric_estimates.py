"""Means and their spread, against SciPy, NumPy, statsmodels and plain enumeration."""

from itertools import combinations
from math import comb, isfinite
from statistics import fmean, stdev

import numpy as np
import pytest
import scipy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillopt_ci.rollout import metrics
from skillopt_ci.rollout.metrics import clustered_error, estimate_mean, paired, pass_at_k
from skillopt_ci.rollout.types import Status
from skillopt_ci.stats import t_quantile, wilson

VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=30)
SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([0.0, 0.5, 1.0]))
#: Values, each with one of a few clusters.
CLUSTERED = st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abcd")), min_size=1, max_size=40)
#: Attempts, how many of them solved the task, how many are drawn.
DRAWS = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))
)


@given(st.integers(1, 1000), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999]))
@example(1, 0.999999)
@example(10_000, 0.95)
@settings(deadline=None)  # what is slow is the other's first one
def test_quantiles_of_t_are_scipys(degrees, confidence):
    expected = scipy.stats.t.ppf(0.5 + confidence / 2, degrees)
    assert t_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_wilson_is_scipys(trial):
    n, solved = trial
    expected = scipy.stats.binomtest(solved, n).proportion_ci(0.95, method="wilson")
    found = wilson(solved / n, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(VALUES)
def test_the_standard_error_is_scipys(values):
    assert metrics.standard_error(values) == pytest.approx(scipy.stats.sem(values), abs=1e-12)


@given(VALUES.filter(lambda values: stdev(values) > 1e-6))
def test_the_interval_is_that_of_students_t(values):
    found = estimate_mean(values).interval
    error = scipy.stats.sem(values)
    expected = scipy.stats.t.interval(0.95, len(values) - 1, np.mean(values), error)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-7, abs=1e-9)


#: Statsmodels 0.15.0: OLS on a constant, cov_type "cluster", corrected for few clusters, t.
STATSMODELS = [
    ([1, 0, 1, 1, 0, 0, 1, 0.5], "aabbccdd", 0.213478140957, (-0.11688272095, 1.24188272095)),
    ([0.2, 0.4, 0.9, 1, 0, 0.3, 0.7], "aaabbcd", 0.046656947482, (0.35151676987, 0.64848323013)),
    ([1, 1, 0, 0, 1, 0, 1, 1, 0, 1], "abcdefghij", 0.163299316186, (0.2305912822, 0.9694087178)),
    ([1, 1, 1, 0, 0, 0], "xxxyyy", 0.5, (-5.85310236808735, 6.85310236808735)),
]


@pytest.mark.parametrize(("values", "clusters", "error", "interval"), STATSMODELS)
def test_clustered_errors_are_those_of_statsmodels(values, clusters, error, interval):
    found = estimate_mean(values, list(clusters))
    assert found.standard_error == pytest.approx(error, rel=1e-9)
    assert (found.interval.low, found.interval.high) == pytest.approx(interval, rel=1e-7)
    assert found.clusters == len(set(clusters))


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=20))
def test_repeating_each_value_in_its_cluster_adds_no_certainty(values):
    names = [str(number) for number in range(len(values))]
    once, thrice = clustered_error(values, names), clustered_error(values * 3, names * 3)
    assert once == pytest.approx(thrice)


@pytest.mark.parametrize(
    ("values", "clusters"), [([], None), ([0.5], None), ([0.0, 0.5, 1.0], ["a", "a", "a"])]
)
def test_below_two_values_the_spread_is_unknown_not_zero(values, clusters):
    found = estimate_mean(values, clusters, shares=clusters is None)
    assert (found.standard_error, found.interval, found.n) == (None, None, len(values))
    assert found.mean == (0.5 if values else None)


@given(CLUSTERED, st.booleans())
def test_shares_have_intervals_within_0_and_1(drawn, grouped):
    values, clusters = [value for value, _ in drawn], [group for _, group in drawn]
    found = estimate_mean(values, clusters if grouped else None, shares=True)
    if found.interval is not None:
        assert found.mean is not None
        assert 0 <= found.interval.low <= found.mean + 1e-9
        assert found.mean - 1e-9 <= found.interval.high <= 1
        assert isfinite(found.standard_error or 0.0)


def test_right_answers_throughout_are_no_certainty():
    found = estimate_mean([1.0] * 10, shares=True).interval
    assert (round(found.low, 4), found.high) == (0.7225, 1.0)


@given(DRAWS)
def test_pass_at_k_and_pass_hat_k_are_what_counting_all_draws_gives(draw):
    attempts, solved, k = draw
    draws = list(combinations([True] * solved + [False] * (attempts - solved), k))
    assert len(draws) == comb(attempts, k)
    some = sum(any(one) for one in draws) / len(draws)
    every = sum(all(one) for one in draws) / len(draws)
    assert pass_at_k(attempts, solved, k) == pytest.approx(some)
    assert metrics.pass_hat_k(attempts, solved, k) == pytest.approx(every)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_quartiles_are_numpys(values):
    found = metrics.quartiles(values)
    expected = np.percentile(values, [25, 50, 75])
    assert found == pytest.approx(tuple(expected), abs=1e-6)


ATTEMPTS = st.lists(st.floats(0, 1), min_size=1, max_size=5)


@given(st.dictionaries(st.text(max_size=8), ATTEMPTS, min_size=1))
def test_tasks_weigh_alike_whatever_their_attempts(scores):
    each = ((task, one) for task, own in scores.items() for one in own)
    found = metrics.summarise(
        metrics.Graded(task, "", Status.SCORED, one, one) for task, one in each
    )
    assert found.hard.mean == pytest.approx(
        float(np.mean([np.mean(own) for own in scores.values()]))
    )


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 2), min_size=2))
def test_a_comparison_has_the_error_of_the_paired_t_test(pairs):
    first = {str(n): one for n, (one, _) in enumerate(pairs)}
    second = {str(n): other for n, (_, other) in enumerate(pairs)}
    found, differences = paired(first, second), [other - one for one, other in pairs]
    assert found.standard_error == pytest.approx(scipy.stats.sem(differences), abs=1e-12)
    assert found.interval is not None
    if found.standard_error:
        tested = scipy.stats.ttest_rel([*second.values()], [*first.values()])
        expected = tested.confidence_interval(0.95)
        assert found.interval.low == pytest.approx(expected.low, abs=1e-9)
        assert found.interval.high == pytest.approx(expected.high, abs=1e-9)


def test_a_comparison_knows_that_tasks_of_one_source_vary_together():
    first, second = dict.fromkeys("abcd", 0.0), {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0}
    groups = dict(zip("abcd", "xxyy", strict=True))
    alone, grouped = paired(first, second), paired(first, second, groups)
    assert grouped.clusters == 2
    assert (alone.standard_error or 0) < (grouped.standard_error or 0)
    found = wilson(0.0, 0)
    assert (found.low, found.high) == (0.0, 1.0)


@given(SCORES, SCORES)
def test_a_comparison_is_the_mean_over_shared_tasks(first, second):
    shared, found = set(first) & set(second), paired(first, second)
    assert found.n == len(shared)
    expected = fmean(second[task] - first[task] for task in shared) if shared else 0
    assert found.mean == pytest.approx(expected)


@pytest.mark.parametrize("tasks", [{}, {"a": 1.0}])
def test_below_two_tasks_there_is_no_standard_error(tasks):
    assert paired(tasks, tasks).standard_error is None

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.report.words import Finding, chance, judge
from skillopt_ci.rollout.metrics import PairedDifference, paired


def difference(fixed: int, broken: int, same: int) -> PairedDifference:
    before = {f"t{n}": float(fixed <= n < fixed + broken) for n in range(fixed + broken + same)}
    after = before | {f"t{n}": float(n < fixed) for n in range(fixed + broken)}
    return paired(before, after)


@pytest.mark.parametrize(
    ("fixed", "broken", "same", "finding"),
    [
        (0, 0, 0, Finding.INCONCLUSIVE),
        (0, 0, 9, Finding.UNCLEAR),
        (5, 0, 0, Finding.UNCLEAR),
        (6, 0, 0, Finding.IMPROVEMENT),
        (0, 6, 90, Finding.REGRESSION),
        (9, 2, 0, Finding.UNCLEAR),
        (10, 1, 0, Finding.IMPROVEMENT),
        (1, 10, 0, Finding.REGRESSION),
    ],
)
def test_a_difference_counts_only_if_chance_hardly_makes_it(
    fixed: int, broken: int, same: int, finding: Finding
) -> None:
    assert judge(difference(fixed, broken, same)) is finding


def test_a_lower_confidence_is_content_with_less() -> None:
    assert judge(difference(0, 4, 0), confidence=0.8) is Finding.REGRESSION


def test_a_change_below_the_threshold_is_none() -> None:
    assert judge(difference(0, 8, 92), threshold=0.1) is Finding.UNCLEAR
    assert judge(difference(0, 8, 72), threshold=0.1) is Finding.REGRESSION


def test_means_and_flips_that_disagree_are_unclear() -> None:
    before = {f"t{n}": 0.5 for n in range(8)}
    after = {f"t{n}": 0.51 for n in range(7)} | {"t7": 0.0}
    assert judge(paired(before, after)) is Finding.UNCLEAR


@given(fixed=st.integers(0, 40), broken=st.integers(0, 40))
def test_chance_is_a_probability_that_ignores_direction(fixed: int, broken: int) -> None:
    assert 0 < chance(fixed, broken) <= 1
    assert chance(fixed, broken) == chance(broken, fixed)


def test_chance_is_that_of_a_fair_coin() -> None:
    assert chance(6, 0) == pytest.approx(2 / 64)

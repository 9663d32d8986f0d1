"""Subsets are balanced: every change is told apart from the others."""

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.stats import balanced_subsets

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

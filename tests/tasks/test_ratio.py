import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.tasks.loading import divide, split_counts

WEIGHTS = st.lists(st.integers(1, 50), min_size=3, max_size=3)


@given(st.integers(0, 500), WEIGHTS)
def test_counts_add_up_and_stay_within_one_of_the_share(total: int, weights: list[int]):
    counts = split_counts(total, weights)
    assert sum(counts) == total
    shares = [total * weight / sum(weights) for weight in weights]
    assert all(abs(count - share) < 1 for count, share in zip(counts, shares, strict=True))


@given(st.integers(0, 60), WEIGHTS, st.integers())
def test_division_loses_and_repeats_nothing(total: int, weights: list[int], seed: int):
    parts = divide(range(total), ":".join(map(str, weights)), seed)
    assert sorted(item for part in parts for item in part) == list(range(total))


@pytest.mark.parametrize(
    ("total", "weights", "counts"),
    [
        (10, [2, 1, 7], (2, 1, 7)),
        (3, [2, 1, 7], (1, 0, 2)),
        (4, [1, 3, 4], (0, 2, 2)),
        (1, [1, 1, 1], (1, 0, 0)),
        (5, [1, 3, 2], (1, 2, 2)),
    ],
)
def test_largest_remainder_wins_and_ties_go_to_the_larger_weight(
    total: int, weights: list[int], counts: tuple[int, ...]
):
    assert split_counts(total, weights) == counts


def test_seed_decides_the_order():
    assert divide(range(20), "2:1:7", 1) == divide(range(20), "2:1:7", 1)
    assert divide(range(20), "2:1:7", 1) != divide(range(20), "2:1:7", 2)


def test_shuffle_is_that_of_the_standard_library():
    assert divide("abcdef", "1:1:1", 42) == (("d", "b"), ("c", "e"), ("a", "f"))

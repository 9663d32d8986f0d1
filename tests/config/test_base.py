import pytest

from skillopt_ci.config.base import choose_alternative
from skillopt_ci.config.config import GivenSplits, RatioSplit, SplitDir

SHAPES = (GivenSplits, RatioSplit, SplitDir)


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ({"path": "a", "limit": 1}, "RatioSplit"),
        ({"trian": "a"}, "GivenSplits"),
        ({"spltdir": "a"}, "SplitDir"),
        ({"path": "a", "split": "1:1:1", "train": "b"}, "RatioSplit"),
        ({}, "GivenSplits"),
        (SplitDir(split_dir="a"), "SplitDir"),
        ("tasks.jsonl", None),
        (None, None),
    ],
)
def test_the_shape_whose_keys_are_closest_is_meant(value, chosen):
    assert choose_alternative(value, SHAPES) == chosen

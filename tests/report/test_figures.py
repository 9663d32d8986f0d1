import pytest

from skillopt_ci.model.client import Usage
from skillopt_ci.report.figures import cost_text, plural, score, score_text, usage_text


def test_a_score_says_how_sure_it_is() -> None:
    assert score_text(0.625, 40) == "0.625 [0.47, 0.76] n=40"


@pytest.mark.parametrize(("value", "expected"), [(0.5, "0.500"), (0, "0.000"), (None, "–")])
def test_what_was_not_measured_is_no_zero(value: float | None, expected: str) -> None:
    assert score(value) == expected


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (0.0, "$0.00"),
        (0.00125, "$0.0013"),
        (0.5, "$0.5000"),
        (1234.5, "$1,234.50"),
        (None, "unknown (no price known)"),
    ],
)
def test_a_cost_shows_the_digits_that_matter(cost: float | None, expected: str) -> None:
    assert cost_text(cost) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 edits"), (1, "1 edit"), (2, "2 edits"), (1200, "1,200 edits")]
)
def test_a_noun_agrees_with_its_number(count: int, expected: str) -> None:
    assert plural(count, "edit") == expected


def test_usage_is_one_line() -> None:
    usage = Usage(calls=1, prompt_tokens=1200, completion_tokens=34, cost_usd=None)
    assert usage_text(usage) == "1 call, 1,234 tokens, cost unknown (no price known)"


def test_counted_tokens_are_called_estimated() -> None:
    usage = Usage(calls=2, prompt_tokens=1, estimated=True)
    assert usage_text(usage) == "2 calls, about 1 token, cost $0.00"

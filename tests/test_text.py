import pytest

from skillopt_ci.model.types import Usage
from skillopt_ci.report.words import usage_text
from skillopt_ci.text import cost_text, names_text, plural, score, score_text


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


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "none"),
        (["a", "b"], "a, b"),
        (["x" * 900], "x" * 900),
        (["x" * 900, "b"], "x" * 900 + " and 1 more"),
    ],
)
def test_names_are_listed(names: list[str], expected: str) -> None:
    assert names_text(names) == expected


def test_of_many_names_some_are_listed() -> None:
    short = names_text([f"t{number}" for number in range(200)])
    assert short.startswith("t0, t1, ")
    assert short.endswith("t29 and 170 more")
    long = names_text([f"{'customer-support/' * 6}{number:03d}" for number in range(200)])
    assert long.endswith("004 and 195 more")

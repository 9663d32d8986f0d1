from dataclasses import replace

import pytest

from skillopt_ci import text
from skillopt_ci.model.types import Usage
from skillopt_ci.report.words import usage_text


def test_a_score_says_how_sure_it_is():
    assert text.score_text(0.625, 40) == "0.625 [0.47, 0.76] n=40"
    assert text.score_text(1.0, 3000) == "1.000 [0.9987, 1.0000] n=3000"


@pytest.mark.parametrize(("value", "expected"), [(0.5, "0.500"), (0, "0.000"), (None, "–")])
def test_what_was_not_measured_is_no_zero(value, expected):
    assert text.score(value) == expected


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        *((39 / 40, 2, "0.98"), (1 / 16, 3, "0.063"), (1, 3, "1.000"), (1e-9, 3, "0.000")),
        *((2999 / 3000, 3, "0.9997"), (1 / 3000, 3, "0.0003"), (249 / 250, 2, "0.996")),
    ],
)
def test_halves_are_rounded_up_and_nearly_none_or_all_is_neither(value, digits, expected):
    assert text.rounded(value, digits) == expected


@pytest.mark.parametrize(
    ("mean", "error", "n", "expected"),
    [
        (0.25, 0.1637, 8, "+0.250 ± 0.387 (95 %)"),
        (0.4 - 0.4125, None, 1, "-0.013"),
        *((0.0, 0.0, 2, "+0.000 ± 0.000 (95 %)"), (-1.9e-17, None, 1, "+0.000")),
    ],
)
def test_a_difference_has_half_its_interval(mean, error, n, expected):
    assert text.difference_text(mean, error, n) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "0%"), (1 / 200, "under 1%"), (0.994, "99%"), (199 / 200, "over 99%"), (1, "100%")],
)
def test_what_is_rare_is_not_never(share, expected):
    assert text.percent(share) == expected
    assert [text.percent(n, 1) for n in (1 / 256, 1 / 2048, 1)] == ["0.4%", "under 0.1%", "100%"]


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (0.0, "$0.00"),
        (0.00004, "under $0.0001"),
        (0.00125, "$0.0013"),
        (0.5, "$0.5000"),
        (1234.5, "$1,234.50"),
        (None, "unknown (no price known)"),
    ],
)
def test_a_cost_shows_the_digits_that_matter(cost, expected):
    assert text.cost_text(cost) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 edits"), (1, "1 edit"), (2, "2 edits"), (1200, "1,200 edits")]
)
def test_a_noun_agrees_with_its_number(count, expected):
    assert text.plural(count, "edit") == expected


def test_usage_is_one_line():
    usage = Usage(calls=1, prompt_tokens=1200, completion_tokens=34, cost_usd=None)
    assert usage_text(usage) == "1 call, 1,234 tokens, cost unknown (no price known)"
    usage = Usage(calls=2, prompt_tokens=1, estimated=True)
    assert usage_text(usage) == "2 calls, about 1 token, cost $0.00"
    usage = replace(usage, cost_usd=0.25)
    assert usage_text(usage) == "2 calls, about 1 token, cost about $0.2500"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "none"),
        (["a", "b"], "a, b"),
        (["x" * 900], "x" * 900),
        (["x" * 900, "b"], "x" * 900 + " and 1 more"),
    ],
)
def test_names_are_listed(names, expected):
    assert text.names_text(names) == expected


def test_of_many_names_some_are_listed():
    short = text.names_text([f"t{number}" for number in range(200)])
    assert short.startswith("t0, t1, ")
    assert short.endswith("t29 and 170 more")
    long = text.names_text([f"{'customer-support/' * 6}{number:03d}" for number in range(200)])
    assert long.endswith("004 and 195 more")

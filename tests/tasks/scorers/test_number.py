from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers.base import Score
from skillopt_ci.scorers.text import find_numbers

Grade = Callable[..., Score]
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE)
def test_every_finite_float_is_read_back(value: float):
    assert [number.value for number in find_numbers(f"it is {value!r}.")] == [value]


@given(st.integers(-(10**15), 10**15))
def test_grouped_integers_are_read_back(value: int):
    assert [number.value for number in find_numbers(f"{value:,}")] == [value]


@given(st.text())
def test_any_text_can_be_searched(text: str):
    assert all(isinstance(number.value, float) for number in find_numbers(text))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,234.5", [1234.5]),
        ("1e3 and 2E-2", [1000, 0.02]),
        ("−5 or -5", [-5, -5]),
        ("$1,000.50", [1000.5]),
        ("-$5, $-5, €7, USD 8, US$9", [-5, -5, 7, 8, 9]),
        ("3/4.", [0.75]),
        ("2026/03/04", [2026, 3, 4]),
        ("10-12", [10, 12]),
        ("10–12", [10, 12]),
        (".5", [0.5]),
        ("1\u202f234", [1234]),
        ("x_1 and H2O", []),
        ("GPT-4", [4]),
        ("答案是42", [42]),
        (r"\boxed{42}", [42]),
        ("**42**.", [42]),
        ("1e999", []),
        ("1/0", []),
        ("none", []),
    ],
)
def test_numbers_as_people_write_them(text: str, values: list[float]):
    assert [number.value for number in find_numbers(text)] == values


@pytest.mark.parametrize(
    ("answer", "reference", "hard"),
    [
        ("first 3, then 42 km", "42", 1),
        ("42, then 3", "42", 0),
        ("12%", "12%", 1),
        ("12 %", "0.12", 1),
        ("12 percent", "12", 1),
        ("0.12", "12%", 1),
        ("1200%", "12%", 0),
        ("no number", "42", 0),
        ("", "0", 0),
        ("1,000", "$1000.00", 1),
    ],
)
def test_last_number_is_compared(grade: Grade, answer: str, reference: str, hard: float):
    assert grade("number", answer, reference).hard == hard


@pytest.mark.parametrize(
    ("keys", "hard"),
    [({}, 0), ({"abs_tol": 0.5}, 1), ({"rel_tol": 0.01}, 1), ({"abs_tol": 0.4}, 0)],
)
def test_tolerances(grade: Grade, keys: dict[str, float], hard: float):
    assert grade("number", "100.5", "100", **keys).hard == hard


def test_reason_shows_the_number_that_was_read(grade: Grade):
    score = grade("number", "I think it is about 41%", "42%")
    assert score.reason == "expected '42%', got '41%'"

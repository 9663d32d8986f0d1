"""The scorer for numbers, as people and models write them."""

import math
import re
from dataclasses import dataclass

from skillopt_ci.config.scorers import NumberScorer
from skillopt_ci.tasks.scorers.grading import needs_references, verdict
from skillopt_ci.tasks.scorers.score import Score
from skillopt_ci.tasks.scorers.wording import mismatch, quote
from skillopt_ci.tasks.task import Task

_NUMBER = re.compile(
    r"""
    (?<![\w.])                                    # not inside a word or another number
    (?P<date>(?<=\d/))?
    (?P<sign>[-+−–]?)
    (?:(?:[A-Z]{0,2}[$€£¥₹]|USD|EUR|GBP|JPY|CNY|INR|CHF|AUD|CAD)\s?)?
    (?P<inner_sign>[-+−–]?)
    (?P<digits>
        \d{1,3}(?:[,\u00a0\u2009\u202f']\d{3})+(?!\d)(?:\.\d+)?
        | \d+(?:\.\d+)?
        | \.\d+
    )
    (?:[eE](?P<exponent>[-+−–]?\d+))?
    (?(date)|(?:/(?P<denominator>\d+)(?![\d/]|\.\d))?)    # 3/4, but not 2026/03/04
    (?P<percent>\s?(?:[%％]|percent\b))?
    """,
    re.VERBOSE | re.ASCII,
)
_MINUS = re.compile("[−–]")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written: 12 % has the value 12 and is ``percent``."""

    value: float
    percent: bool = False


def find_numbers(text: str) -> list[Number]:
    """All finite numbers in ``text``, in order.

    Thousands may be grouped by commas, apostrophes or narrow spaces, the decimal sign is a point;
    currency, exponents, fractions and the typographic minus are understood.
    """
    numbers = [_number(match) for match in _NUMBER.finditer(text)]
    return [number for number in numbers if number is not None]


def grade_number(spec: NumberScorer, task: Task, answer: str) -> Score:
    """Solved when the answer's last number is within tolerance of a reference."""
    found = find_numbers(answer)
    if not found:
        return verdict(False, f"there is no number in {quote(answer)}", answer)
    expected = [number for reference in task.references for number in find_numbers(reference)]
    solved = any(_close(spec, found[-1], number) for number in expected)
    got = f"{found[-1].value:.12g}{'%' if found[-1].percent else ''}"
    reason = "equals a reference" if solved else mismatch(task.references, got)
    return verdict(solved, reason, answer)


def check_number_references(spec: NumberScorer, task: Task) -> str | None:
    """Why the references cannot be compared with a number; None if they can."""
    odd = [reference for reference in task.references if len(find_numbers(reference)) != 1]
    if odd:
        return f"the reference {quote(odd[0])} is not one number"
    return needs_references(spec, task)


def _number(match: re.Match[str]) -> Number | None:
    digits = re.sub(r"[^\d.]", "", match["digits"])
    exponent = _MINUS.sub("-", match["exponent"] or "0")
    value = float(f"{digits}e{exponent}")
    if match["denominator"]:
        divisor = float(match["denominator"])
        value = value / divisor if divisor else math.inf
    negative = _MINUS.sub("-", match["sign"] + match["inner_sign"]).count("-") == 1
    return (
        Number(-value if negative else value, bool(match["percent"]))
        if math.isfinite(value)
        else None
    )


def _close(spec: NumberScorer, got: Number, expected: Number) -> bool:
    # 12 % against 0.12 and against 12: questions that ask for a percentage are answered both ways.
    readings = {got.value}
    if got.percent and not expected.percent:
        readings.add(got.value / 100)
    if expected.percent and not got.percent:
        readings.add(got.value * 100)
    return any(
        math.isclose(value, expected.value, rel_tol=spec.rel_tol, abs_tol=spec.abs_tol)
        for value in readings
    )

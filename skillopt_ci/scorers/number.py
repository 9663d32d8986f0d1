"""Numbers as people write them: signs, thousands, fractions, exponents, currencies, percent."""

import math
import re
import unicodedata
from typing import NamedTuple

from skillopt_ci.config import scorers as specs
from skillopt_ci.scorers.base import (
    LATEX_BOX,
    PLAIN,
    Score,
    mismatch,
    needs_references,
    quote,
    scored,
)
from skillopt_ci.tasks.task import Task

_NUMBER = re.compile(
    r"""
    (?:(?P<below>[√∛]|\\sqrt(?:\[\d+\])?\{?|(?:π|\\pi)\s?(?:/|\}\{))\s?  # √2 and π/2 are not 2
        | (?<![\w.])                              # not inside a word or another number
    )
    (?P<sign>(?i:\b(?:minus|negative)\s+)|[-+−–]?)
    (?P<currency>(?:[A-Z]{0,2}\\?[$€£¥₹]|USD|EUR|GBP|JPY|CNY|INR|CHF|AUD|CAD)\s?)?
    (?P<inner_sign>[-+−–]?)
    (?:(?P<whole>\d+)\s(?=\d{1,2}\s?/\s?\d{1,2}\b))?  # 1 3/4
    (?P<digits>
        \d{1,3}(?:[ ]\d{3})+(?!\d)(?:[.,]\d+)?
        | \.?\d+(?:[.,:'’_–-]\d+|(?:\s?/\s?\d+){2,})*+  # with dates, times and ranges
    )
    (?:
        (?:[eE]|\s?(?:[×·x*]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)\s?\{?)(?P<exponent>[-+−–]?\d+)\}?
        | (?<=\b10)\s?(?:\^|\*\*)\s?\{?(?P<power>[-+−–]?\d+)\}?
        | (?P<raised>(?:\s?\^|\*\*)\{?[-+−–]?\d+|\s?(?:π|\\pi\b))
    )?
    (?(below)\}*(?:\{\d+\})?)
    (?:\s?/\s?(?P<denominator>\d+)(?!\d|\s?(?:[/^π]|\*\*|\\pi\b)|[.:'’_eE]\d|,\d{3}\b))?
    (?P<scale>(?:[ ~-]*(?i:hundred|thousand|million|billion|trillion|bn)s?\b)+
        | (?(currency)\s?[kKMBT]|[kMBT])\b
    )?
    (?P<percent>\s?(?:\\?[%％]|per\s?cent\b))?
    """,
    re.VERBOSE | re.ASCII,
)
#: How the digits of one number may be written: 1,234.5 and 1'234 and 1_234 and 12,34,567.
_WITH_POINT = re.compile(
    r"\d*\.?\d+|[1-9]\d{0,2}(?:[,'’_\s]\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?"
)
_SCALES = {"k": 1e3, "m": 1e6, "b": 1e9, "bn": 1e9, "t": 1e12, "hundred": 1e2} | dict(
    zip(("thousand", "million", "billion", "trillion"), (1e3, 1e6, 1e9, 1e12), strict=True)
)
_MINUS = re.compile(r"[−–]|(?i:minus|negative)\s+")
#: Between groups of three digits: 1{,}234 and 1,\!234 and 1\,234.
_LATEX_GROUPS = re.compile(r"(?<=\d)(?:\{,\}|,?\\[,!])(?=\d{3})")
#: As in _42_, but not in a_1_b or x_1 y_{2}.
_UNDERSCORED = re.compile(r"(?<![\w)}\]$])(__?)(?!\s)([^_\n]+)(?<!\s)\1(?![\w{\\])")
_LATEX_FRACTION = re.compile(
    r"(?:(\d)\s?)?\\[cdt]?frac\s?(?:\{\s?([-−]?\d+)\s?\}\s?\{\s?(\d+)\s?\}|(\d)(\d))"
)
_VULGAR_FRACTION = re.compile(r"([-+−–－]?)\s?([¼-¾⅐-⅞])")
#: The exponent of a unit or a variable and a tolerance are no numbers of their own: 5 m^2, 20 ± 1.
_NO_NUMBER = re.compile(
    r"(?<=[A-Za-zπ})])\s?\^\s?(?:\{[-+−–]?\d+\}|[-+−–]?\d+)"
    r"|(?<=\d)\s?(?:±|\+/[-−–]|\\pm\b)\s?\d+(?:[.,]\d+|\s?/\s?\d+)?"
)


class Number(NamedTuple):
    """A number as written: 12 % has the value 12 and is ``percent``; NaN if it is unclear."""

    value: float
    percent: bool = False


def find_numbers(text: str) -> list[Number]:
    """All finite numbers in ``text``; reads thousands, currencies, exponents, fractions, millions.

    A comma that does not group three digits is a decimal one. Dates, ranges, 2^10, √2 are unclear.
    """
    numbers = []
    text = re.sub(r"(?![0-9])\d", lambda one: str(unicodedata.decimal(one[0])), text)  # ٤٢
    text = LATEX_BOX.sub(r" \1", _LATEX_GROUPS.sub(",", _UNDERSCORED.sub(r" \2 ", text)))
    text = re.sub("⁻?[⁰¹²³⁴-⁹]+", lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    text = _VULGAR_FRACTION.sub(lambda m: f" {m[1]}{unicodedata.normalize('NFKC', m[2])}", text)
    text = _LATEX_FRACTION.sub(
        lambda one: f"{one[1] or ''} {one[2] or one[4]}/{one[3] or one[5]}".strip(),
        re.sub(r"(?<=\d),[-–—]+(?!\d)", ",00", text.translate(PLAIN)),  # 1.200,- €
    )
    for match in _NUMBER.finditer(_NO_NUMBER.sub("", text)):
        digits = match["digits"] if match["power"] is None else "1"
        if not _WITH_POINT.fullmatch(digits):
            digits = digits.translate(str.maketrans(".,", ",."))
        clear = _WITH_POINT.fullmatch(digits) and not (match["raised"] or match["below"])
        exponent = match["exponent"] or match["power"] or "0"
        digits = re.sub(r"[^\d.]", "", digits)
        value = float(f"{digits}e{_MINUS.sub('-', exponent)}") if clear else math.nan
        divisor = float(match["denominator"] or 1)
        value = float(match["whole"] or 0) + (value / divisor if divisor else math.inf)
        for word in re.findall("[a-z]+", (match["scale"] or "").lower()):
            value *= _SCALES[word.removesuffix("s")]
        if _MINUS.sub("-", match["sign"] + match["inner_sign"]).count("-") == 1:
            value = -value
        if not math.isinf(value):
            numbers.append(Number(value, bool(match["percent"])))
    return numbers


def grade_number(spec: specs.NumberScorer, task: Task, answer: str) -> Score:
    if not (found := find_numbers(answer)):
        return scored(False, f"there is no number in {quote(answer)}", answer)
    if math.isnan(found[-1].value):
        return scored(False, f"{quote(answer)} ends with an unclear number", answer)
    expected = [number for reference in task.references for number in find_numbers(reference)]
    solved = any(_close(spec, found[-1], number) for number in expected)
    got = f"{found[-1].value:.12g}{'%' if found[-1].percent else ''}"
    reason = "equals a reference" if solved else mismatch(task.references, got)
    return scored(solved, reason, answer)


def check_number_references(spec: specs.NumberScorer, task: Task) -> str | None:
    for reference in task.references:
        if len(found := find_numbers(reference)) != 1 or math.isnan(found[0].value):
            return f"the reference {quote(reference)} is not one number"
    return needs_references(spec, task)


def _close(spec: specs.NumberScorer, got: Number, expected: Number) -> bool:
    # 12 % may equal 0.12 or 12: people answer questions about percentages both ways.
    scaled = got.value
    if got.percent != expected.percent:
        scaled = got.value / 100 if got.percent else got.value * 100
    return any(
        math.isclose(value, expected.value, rel_tol=spec.rel_tol, abs_tol=spec.abs_tol)
        for value in (got.value, scaled)
    )

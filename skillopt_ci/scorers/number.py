"""Numbers as people write them: signs, thousands, fractions, exponents, currencies, percent."""

import math
import re
import unicodedata
from typing import NamedTuple

from skillopt_ci.config import scorers as specs
from skillopt_ci.scorers import base
from skillopt_ci.tasks.task import Task

_NUMBER = re.compile(
    r"""
    (?:(?P<below>[√∛±]|\\(?:pm\b|sqrt(?:\[\d+\])?\{?)|(?:π|\\pi)\s?(?:/|\}\{))\s?  # √2, ±2, π/2
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
    (?P<scale>(?:[ ~-]*(?i:hundred|thousand|million|billion|trillion|bn|lakh|crore|mio|mln|millionen
            |millone|milioni|mrd|milliarden?|milliard|miliardi)s?\b)+
        | (?(currency)(?:\s?[kKMBT]|m)|[kMBT])\b
        | [ ]?(?:[百千백천]?[万萬만亿億억]|[千천](?!字节|[米克瓦卡焦帕赫伏安]))  # but 千米 is km
    )?
    (?P<percent>\s?(?:\\?[%％]|per\s?cent\b))?
    """,
    re.VERBOSE | re.ASCII,
)
#: How the digits of one number may be written: 1,234.5 and 1'234 and 1_234 and 12,34,567.
_WITH_POINT = re.compile(
    r"\d*\.?\d+|[1-9]\d{0,2}(?:[,'’_\s]\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?"
)
_SCALES = (
    dict.fromkeys(("hundred", "百", "백"), 1e2)
    | dict.fromkeys(("k", "thousand", "千", "천"), 1e3)
    | dict.fromkeys(("万", "萬", "만"), 1e4)
    | dict.fromkeys(("m", "million", "millionen", "millone", "milioni", "mio", "mln"), 1e6)
    | dict.fromkeys(("亿", "億", "억"), 1e8)
    | dict.fromkeys(("b", "bn", "billion", "milliard", "milliarde", "milliarden"), 1e9)
    | {"lakh": 1e5, "crore": 1e7, "mrd": 1e9, "miliardi": 1e9, "t": 1e12, "trillion": 1e12}
)
_MINUS = re.compile(r"[−–]|(?i:minus|negative)\s+")
#: Between groups of three digits: 1{,}234 and 1,\!234 and 1\,234.
_LATEX_GROUPS = re.compile(r"(?<=\d)(?:\{,\}|,?\\[,!])(?=\d{3})")
_BOXED = re.compile(r"\\(?:boxed|fbox)\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+)\}")
#: As in _42_, but not in a_1_b or x_1 y_{2}.
_UNDERSCORED = re.compile(r"(?<![\w)}\]$])(__?)(?!\s)([^_\n]+)(?<!\s)\1(?![\w{\\])")
_LATEX_FRACTION = re.compile(
    r"(?:(\d)\s?)?\\[cdt]?frac\s?(?:\{\s?([-−]?\d+)\s?\}\s?\{\s?(\d+)\s?\}|(\d)(\d))"
)
_VULGAR_FRACTION = re.compile(r"([-+−–－]?)\s?([¼-¾⅐-⅞])")
#: No numbers of their own: exponents of units or variables, tolerances, how a number is rounded.
_NO_NUMBER = re.compile(
    r"(?<=[A-Za-zπ})])\s?\^\s?(?:\{[-+−–]?\d+\}|[-+−–]?\d+)"
    r"|(?<=\d)\s?(?:±|\+/[-−–]|\\pm\b)\s?\d+(?:[.,]\d+|\s?/\s?\d+)?"
    r"|\bto\s(?:\d+\s(?=decimal|significant|d\.?p\b|s\.?f\b)|the\snearest\s\d[\d.,]*\b)"
)


class Number(NamedTuple):
    """As written: 12 % is 12 and ``percent``; 1.5万 is 15,000, and ``bare`` 1.5; NaN if unclear."""

    value: float
    bare: float
    percent: bool


def find_numbers(text: str) -> list[Number]:
    """All finite numbers in ``text``; reads thousands, currencies, exponents, fractions, millions.

    A comma that does not group three digits is a decimal one. Dates, ranges, 2^10, √2 are unclear.
    """
    numbers, myriads_end = list[Number](), -1
    text = re.sub(r"(?![0-9])\d", lambda one: str(unicodedata.decimal(one[0])), text)  # ٤٢
    text = base.LATEX_BOX.sub(r" \1", _LATEX_GROUPS.sub(",", _UNDERSCORED.sub(r" \2 ", text)))
    text = re.sub("⁻?[⁰¹²³⁴-⁹]+", lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    text = _VULGAR_FRACTION.sub(lambda m: f" {m[1]}{unicodedata.normalize('NFKC', m[2])}", text)
    text = _LATEX_FRACTION.sub(
        lambda one: f"{one[1] or ''} {one[2] or one[4]}/{one[3] or one[5]}".strip(),
        re.sub(r"(?<=\d),[-–—]+(?!\d)", ",00", text.translate(base.PLAIN)),  # 1.200,- €
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
        if _MINUS.sub("-", match["sign"] + match["inner_sign"]).count("-") == 1:
            value = -value
        bare = value
        for word in re.findall(r"[a-z]+|[^\s~a-z-]", (match["scale"] or "").lower()):
            value *= _SCALES[word.removesuffix("s")]
            bare = value if word.isascii() else bare
        if match.start("digits") == myriads_end:  # 1万5000
            bare = value = math.copysign(value, numbers[-1].value) + numbers.pop().value
        if not math.isinf(value):
            numbers.append(Number(value, bare, bool(match["percent"])))
            myriads_end = match.end() if (match["scale"] or " ")[-1] in "万萬만亿億억" else -1
    return numbers


def grade_number(spec: specs.NumberScorer, task: Task, answer: str) -> base.Score:
    if not (found := find_numbers(next(iter(_BOXED.findall(answer)[::-1]), answer))):
        return base.scored(False, f"there is no number in {base.quote(answer)}", answer)
    if math.isnan(found[-1].value):
        return base.scored(False, f"{base.quote(answer)} ends with an unclear number", answer)
    expected = [number for reference in task.references for number in find_numbers(reference)]
    solved = any(_close(spec, found[-1], number) for number in expected)
    got = f"{found[-1].value:.12g}{'%' if found[-1].percent else ''}"
    reason = "equals a reference" if solved else base.mismatch(task.references, got)
    return base.scored(solved, reason, answer)


def check_number_references(spec: specs.NumberScorer, task: Task) -> str | None:
    for reference in task.references:
        if len(found := find_numbers(reference)) != 1 or math.isnan(found[0].value):
            return f"the reference {base.quote(reference)} is not one number"
    return base.needs_references(spec, task)


def _close(spec: specs.NumberScorer, got: Number, expected: Number) -> bool:
    # 12 % may equal 0.12 or 12: people answer questions about percentages both ways. 1.5万 may
    # equal 1.5, since the question may ask for 万; and 5만 is also "only 5".
    scaled = got.bare if expected.value == expected.bare else got.value
    if got.percent != expected.percent:
        scaled = got.value / 100 if got.percent else got.value * 100
    return any(
        math.isclose(value, expected.value, rel_tol=spec.rel_tol, abs_tol=spec.abs_tol)
        for value in (got.value, scaled)
    )

"""Scorers that only look at the answer: texts, patterns, choices, numbers, JSON."""

import json
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from skillopt_ci.config import scorers as specs
from skillopt_ci.scorers.base import (
    GraderError,
    Score,
    brief,
    extract,
    mismatch,
    needs_references,
    quote,
    reaches,
    scored,
    sentence,
)
from skillopt_ci.tasks.files import refuse_constant
from skillopt_ci.tasks.records import labelled
from skillopt_ci.tasks.task import Task


async def grade_answer(spec: specs.AnswerScorer, task: Task, response: str) -> Score:
    """Raises GraderError for a task that lacks what its scorer needs."""
    grader = GRADERS[type(spec)]
    if fault := grader.check(spec, task):
        raise GraderError(f"task {task.id!r} cannot be graded: {fault}")
    answer = composed(extract(response, spec.answer, spec.tag))
    golds = tuple(map(composed, task.references))
    if any("\r\n" in gold for gold in golds):  # from a cell of CSV; answers have \n
        answer = answer.replace("\r\n", "\n")
        golds = tuple(gold.replace("\r\n", "\n") for gold in golds)
    return grader.grade(spec, replace(task, references=golds), answer)


#: Accents joined with their letters (NFC): models write "é" as one character, macOS as two.
composed = partial(unicodedata.normalize, "NFC")

_ARTICLE = re.compile(r"\b(a|an|the)\b")
#: The byte order mark and others that nobody sees; joiners are left, which spell words.
_INVISIBLE = "\ufeff\u200b\u2060"
_UNSEEN = str.maketrans("", "", _INVISIBLE)
#: ASCII's, and quotation marks and apostrophes as they are printed.
_DROP_PUNCTUATION = str.maketrans("", "", f"{string.punctuation}‘’‚‹›“”„«»「」『』")


def grade_exact(_spec: specs.ExactScorer, task: Task, answer: str) -> Score:
    return _graded(answer.strip() in {each.strip() for each in task.references}, task, answer)


def grade_normalized(_spec: specs.NormalizedScorer, task: Task, answer: str) -> Score:
    return _graded(_equal_normalized(task, answer), task, answer)


def grade_f1(_spec: specs.F1Scorer, task: Task, answer: str) -> Score:
    best = max(token_f1(answer, reference) for reference in task.references)
    return _graded(_equal_normalized(task, answer), task, answer, best, "F1")


def grade_anls(spec: specs.AnlsScorer, task: Task, answer: str) -> Score:
    best = max(anls(answer, reference, spec.threshold) for reference in task.references)
    return _graded(reaches(best, spec.hard_at), task, answer, best, "ANLS")


def normalized(text: str) -> str:
    """Like SQuAD: lower case without ASCII punctuation, quotation marks, articles, extra space.

    What would leave nothing is not dropped: the article of the answer "A.", the operator "+".
    """
    seen = text.lower().translate(_UNSEEN)
    bare = seen.translate(_DROP_PUNCTUATION)
    left = (" ".join(one.split()) for one in (_ARTICLE.sub(" ", bare), bare, seen))
    return next(filter(None, left), "")


def token_f1(answer: str, reference: str) -> float:
    """The harmonic mean of precision and recall over bags of normalised words, from 0 to 1."""
    left, right = Counter(normalized(answer).split()), Counter(normalized(reference).split())
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


def anls(answer: str, reference: str, threshold: float) -> float:
    """1 − the relative edit distance; 0 if the distance is ``threshold`` or more."""
    from rapidfuzz.distance import Levenshtein  # noqa: PLC0415 - only this scorer needs it

    left, right = (" ".join(text.lower().split()) for text in (answer, reference))
    distance = Levenshtein.normalized_distance(left, right)
    return 1.0 - distance if distance < threshold or distance == 0 else 0.0


def _equal_normalized(task: Task, answer: str) -> bool:
    return normalized(answer) in {normalized(reference) for reference in task.references}


def _graded(
    solved: bool, task: Task, answer: str, soft: float | None = None, measure: str = ""
) -> Score:
    detail = f"; {measure} {soft:.2f}" if soft is not None else ""
    reason = "equals a reference" if solved else mismatch(task.references, answer) + detail
    return scored(solved, reason, answer, soft=soft)


def grade_contains(spec: specs.ContainsScorer, task: Task, answer: str) -> Score:
    # An empty answer must not pass merely because it lacks forbidden texts.
    if not answer.strip():
        return scored(False, "the answer is empty", answer)
    fold = str.casefold if spec.ignore_case else str
    held = fold(answer)
    wanted = {text: fold(composed(text)) in held for text in spec.contains or task.references}
    unwanted = dict.fromkeys(spec.not_contains)
    forbidden = [text for text in unwanted if fold(composed(text)) in held]
    required = [any(wanted.values())] if wanted and spec.match == "any" else [*wanted.values()]
    kept, faults = sum(required) + len(unwanted) - len(forbidden), []
    if not all(required):
        missing = [quote(text) for text, there in wanted.items() if not there]
        faults.append(f"lacks {(' and ' if spec.match == 'all' else ' or ').join(missing)}")
    if forbidden:
        faults.append(f"contains the forbidden {' and '.join(map(quote, forbidden))}")
    reason = sentence(faults) if faults else "contains what it must and nothing forbidden"
    return scored(not faults, reason, answer, soft=kept / (len(required) + len(unwanted)))


def check_contains_task(spec: specs.ContainsScorer, task: Task) -> str | None:
    if not (spec.contains or task.references or spec.not_contains):
        return "neither the scorer nor the task's references say what the answer must contain"
    empty = not spec.contains and "" in task.references
    return "every answer contains an empty reference" if empty else None


#: Seconds until a pattern that backtracks too much is given up.
PATTERN_SECONDS = 1.0
#: Most backtracking steps of a pattern in a JSON Schema; most patterns need none.
_MOST_BACKTRACKING = 100_000
#: Most nesting levels of JSON to validate: the library crashes the process if its stack overflows.
_MOST_NESTED = 500
_FLAT = (str, int, float, type(None))


def grade_regex(spec: specs.RegexScorer, _task: Task, answer: str) -> Score:
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - few scorers need it

    flags = (regex.I if spec.ignore_case else 0) | (regex.M if spec.multiline else 0)
    try:
        match = regex.search(composed(spec.pattern), answer, flags, timeout=PATTERN_SECONDS)
    except TimeoutError:
        reason = f"{quote(spec.pattern)} takes more than {PATTERN_SECONDS:g} s on this answer"
        return scored(False, reason, answer)
    if spec.negate and not answer.strip():
        return scored(False, "the answer is empty", answer)
    reason = "nothing forbidden occurs" if spec.negate else f"nothing matches {quote(spec.pattern)}"
    if match:
        found = quote(str(match[0]))
        reason = f"{found} must not occur" if spec.negate else f"matches {found}"
    return scored(bool(match) != spec.negate, reason, answer)


#: Declares the rest of the line to be the answer, or the last line below it, maybe in a formula.
_DECLARED = re.compile(
    r"""
    (?: # "## Answer" or "**Answer:** …", unless another declaration follows
        ^[*_#> \t]*(?:the[ ])?(?:final[ ]|correct[ ])?answer[*_ \t]*(?:$|:)
        (?!\W*(?:(?:so|thus|therefore),?[ ])?(?:the[ ](?:\w+[ ])?answer[ ]is
            |the[ ]correct[ ](?:option|choice)[ ]is|(?:the[ ])?(?:\w+[ ])?answer[*_ \t]*:))
    | \bthe[ ](?:(?:final|correct|right|best)[ ])?answer[ ]is\b:?
    | # such words of a choice or in another language, if a label follows
        ^(?>.*?(?:\bthe[ ]correct[ ](?:option|choice)[ ]is|答案[是为选]?|故选|答えは?
            |\b(?:antwort|ответ|réponse|respuesta(?:[ ]correcta)?)(?:[ ]ist|[ ]est|[ ]es|\s?:)
        ))[:：*]*+(?=\W*+(?!a[ ]\w)\w(?:\b|です)  # the label: a letter or digit, no article "a"
            (?!.*(?:\b\w\b|(?<![a-zÀ-ɏ])[a-z](?![a-zÀ-ɏ]))))  # no second one, even between 汉字
    )[*_ \t]*
    (?:\n[\s$\\[]*+(?=\W*+\w(?!.*(?-i:\b[A-Z]\b)).*+[\s$\\\]]*+\Z))?  # the last line, one label
    (.+)$
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_LATEX_BOX = re.compile(r"\\(?:boxed|text(?:bf)?|mathrm)\{([^{}]*)\}")
#: One line in a formula or a fenced block, and nothing else; two blocks may name two choices.
_ENCLOSED = re.compile(r"\A\s*(?:\$\$|[`~]{3,}\w*)[ \t]*\n(.*)\n[ \t]*(?:\$\$|[`~]{3,})\s*\Z")
_BETWEEN_LABELS = re.compile(r"[\s,;/&+]+(?:(?:and|or)\s+)?", re.IGNORECASE)
#: "A good reason …", "I think …": an ordinary word, not a label. After LaTeX, anything may follow.
_ARTICLE_FIRST = re.compile(r"\s*[AI][ \t]+[^\W\d]|\W*?\\", re.IGNORECASE)
#: Separates a label from its explanation, which may name others: "B) …", "**B** …", "B: …".
_SET_OFF = re.compile(r"\W+\w|\w++[*_]*+[.):\]}\n]")
#: Also a label between Chinese or Japanese characters, but not the article of "A city".
_WORDS = re.compile(r"(?!A\s+[a-z])(?:[\u3040-\u9fff]+|[^\W\u3040-\u9fff]+)")
_EMPHASIS = " *`_\"'“”"
_AROUND_LABEL = f"{_EMPHASIS}$()[].:,;。、"
#: "Option (B" and "\\(B\\", of which brackets are stripped, "Option B is correct", "Option …".
_ALONE = re.compile(r"\A(?:OPTION |\\)[^\w?−-]*(\w+)[^\w?]*(?: IS (?:CORRECT|RIGHT))?\Z|\AOPTION ")


def grade_choice(spec: specs.ChoiceScorer, task: Task, answer: str) -> Score:
    choices = choices_of(spec, task)
    chosen = parse_choice(answer, choices)
    expected = [parse_choice(reference, choices) for reference in task.references]
    solved, wanted = bool(chosen) and chosen in expected, " or ".join(dict.fromkeys(expected))
    got = quote(chosen) if chosen else "an empty answer"
    reason = f"chose {chosen}" if solved else f"expected choice {quote(wanted)}, got {got}"
    return scored(solved, reason, answer)


def choices_of(spec: specs.ChoiceScorer, task: Task) -> dict[str, str]:
    """The choices by label; a plain list is labelled A, B, C …"""
    given = labelled(spec.choices or task.metadata.get("choices"))
    return {_label(key.translate(_UNSEEN)): text.translate(_UNSEEN) for key, text in given.items()}


def parse_choice(answer: str, choices: Mapping[str, str]) -> str:
    """The label that ``answer`` names, any label if none is known; else the normalised answer."""
    answer = _ENCLOSED.sub(r"\1", answer.translate(_UNSEEN).replace(". I hope it is correct", "."))
    for _ in range(2):  # a text in a box
        answer = _LATEX_BOX.sub(r"\1", answer)
    declared = _DECLARED.findall(answer)
    for said in (answer, *declared[-1:]):
        if found := _named(said, choices):
            return found
    return _label(declared[-1] if declared and not choices else answer)


def _named(said: str, choices: Mapping[str, str]) -> str:
    label, text = _label(said), " ".join(composed(said).casefold().split())
    if label in choices:
        return label
    bare = text.strip(_EMPHASIS)  # 5! may be another choice than 5
    for given in filter(None, (text, bare.rstrip(f".{_EMPHASIS}"), bare.rstrip(f".!{_EMPHASIS}"))):
        for key, choice in choices.items():
            meaning = " ".join(composed(choice).casefold().split())
            if given in (meaning, meaning.rstrip("."), f"{key.casefold()} {meaning}"):
                return key
    full = {
        key: rf"(?i)\W*+(?:option\W++)?{re.escape(key)}\W+{re.escape(choice)}\W*+"
        for key, choice in choices.items()
    }
    lines = [line for line in said.splitlines() if line.strip()][:2]
    listed = [key for key in choices if any(re.fullmatch(full[key], line) for line in lines)]
    if listed and len(listed) == len(lines):  # "B) 4" alone names B; a list of choices names none
        return listed[0] if len(lines) == 1 else ""
    labels = {_label(word) for word in _BETWEEN_LABELS.split(said.strip())} - {""}
    several = len(labels) > 1 and all(len(one) == 1 or one in choices for one in labels)
    if several or not text or _ARTICLE_FIRST.match(said) or _DECLARED.search(said):
        return ""
    first = _label(re.sub(r"(?i)\Aoption (?=\w+:)", "", said).split(maxsplit=1)[0])
    others = () if _SET_OFF.match(said.strip()) else _WORDS.findall(said)
    return first if first in choices and not choices.keys() & {*others} - {first} else ""


def check_choice_references(spec: specs.ChoiceScorer, task: Task) -> str | None:
    choices = choices_of(spec, task)
    for reference in task.references:
        label = parse_choice(reference, choices)
        if not label or (choices and label not in choices):
            return f"the reference {quote(reference)} is none of the choices {', '.join(choices)}"
    return needs_references(spec, task)


def _label(text: str) -> str:
    label = text.translate(_PLAIN).strip().lstrip(_AROUND_LABEL).rstrip(f"!{_AROUND_LABEL}")
    return _ALONE.sub(r"\1", re.sub(r"(?<=\w)[^\w?]*です\Z", "", label.upper()))  # "Bです"


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
#: Spaces and hyphens that do not break, and full-width characters, as those that do and are not.
_PLAIN: Mapping[int, int | str] = {
    **{wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F) if chr(wide) not in "，："},
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " "),
    **dict.fromkeys(map(ord, "\u2010\u2011"), "-"),
    **dict(zip(map(ord, "\u2044٫٬٪"), "/.,%", strict=True)),  # Arabic points, commas and percents
}
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
    text = _LATEX_BOX.sub(r" \1", _LATEX_GROUPS.sub(",", _UNDERSCORED.sub(r" \2 ", text)))
    text = re.sub("⁻?[⁰¹²³⁴-⁹]+", lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    text = _VULGAR_FRACTION.sub(lambda m: f" {m[1]}{unicodedata.normalize('NFKC', m[2])}", text)
    text = _LATEX_FRACTION.sub(
        lambda one: f"{one[1] or ''} {one[2] or one[4]}/{one[3] or one[5]}".strip(),
        re.sub(r"(?<=\d),[-–—]+(?!\d)", ",00", text.translate(_PLAIN)),  # 1.200,- €
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


def grade_json(spec: specs.JsonScorer, task: Task, answer: str) -> Score:
    try:
        value = _parse(answer)
    except (ValueError, RecursionError) as error:
        return scored(False, brief(f"{quote(answer)} is not JSON: {error}"), answer)
    if spec.schema_ is not None:
        fault = _schema_fault(spec.schema_, value)
        return scored(not fault, fault or "satisfies the schema", answer)
    solved = any(same_json(value, _parse(reference)) for reference in task.references)
    return _graded(solved, task, answer)


def _schema_fault(schema: Any, value: Any) -> str:
    import jsonschema_rs  # noqa: PLC0415 - only a scorer with a schema needs it

    try:
        # Offline, since a schema must not make the grader fetch anything; limits backtracking.
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MOST_BACKTRACKING)
        validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
    except jsonschema_rs.ValidationError as error:
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
            raise GraderError(
                f"the JSON Schema refers to something that is not in it: {error.message}"
            ) from None
        raise GraderError(f"not a JSON Schema: {error.message}") from error
    if _depth(value) > _MOST_NESTED:
        return "the answer is nested too deeply"
    try:
        broken = next(validator.iter_errors(value), None)
    except UnicodeEncodeError:
        return "the answer holds half of a surrogate pair, which is not a character"
    if broken is None:
        return ""
    path = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in broken.instance_path)
    return brief(f"${''.join(path)}: {broken.message}")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [part for one in inner if not isinstance(one, _FLAT) for part in one]
    return depth


def same_json(left: object, right: object) -> bool:
    """Equality of JSON values: order of members is ignored, 1 equals 1.0 but not true."""
    pairs = [(left, right)]
    for one, other in pairs:  # inner values are appended: recursion would be as deep as the answer
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            pairs += [(one[key], other[key]) for key in one]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs += zip(one, other, strict=True)
        elif not isinstance(one, _FLAT) or (one, type(one) is bool) != (other, type(other) is bool):
            return False
    return True


def check_json_references(spec: specs.JsonScorer, task: Task) -> str | None:
    if spec.schema_ is not None:
        return None
    for reference in task.references:
        try:
            _parse(reference)
        except (ValueError, RecursionError) as error:
            return f"the reference {quote(reference)} is not JSON: {error}"
    return needs_references(spec, task)


def _parse(text: str) -> Any:
    return json.loads(text.strip(_INVISIBLE), parse_constant=refuse_constant)


class AnswerGrader(NamedTuple):
    """``grade`` returns an answer's score; ``check`` says why a task cannot be graded."""

    grade: Callable[[Any, Task, str], Score]
    check: Callable[[Any, Task], str | None] = needs_references


#: The grader for each type of scorer that only looks at the answer.
GRADERS: Mapping[object, AnswerGrader] = {
    specs.ExactScorer: AnswerGrader(grade_exact),
    specs.NormalizedScorer: AnswerGrader(grade_normalized),
    specs.F1Scorer: AnswerGrader(grade_f1),
    specs.ContainsScorer: AnswerGrader(grade_contains, check_contains_task),
    specs.RegexScorer: AnswerGrader(grade_regex, lambda *_: None),
    specs.NumberScorer: AnswerGrader(grade_number, check_number_references),
    specs.ChoiceScorer: AnswerGrader(grade_choice, check_choice_references),
    specs.AnlsScorer: AnswerGrader(grade_anls),
    specs.JsonScorer: AnswerGrader(grade_json, check_json_references),
}


def grade_varies(part: specs.ScorerSpec) -> bool:
    """Whether more than the work decides, as for programs here and judges; grades are not kept."""
    return type(part) not in (*GRADERS, specs.ComputerScorer)

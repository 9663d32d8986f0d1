"""Scorers that only look at the answer: texts, patterns and JSON; the table of all that do."""

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from skillopt_ci.config import scorers as specs
from skillopt_ci.scorers import base
from skillopt_ci.scorers.choice import check_choice_references, grade_choice
from skillopt_ci.scorers.number import check_number_references, grade_number
from skillopt_ci.tasks.files import refuse_constant
from skillopt_ci.tasks.task import Task


async def grade_answer(spec: specs.AnswerScorer, task: Task, response: str) -> base.Score:
    """Raises GraderError for a task that lacks what its scorer needs."""
    grader = GRADERS[type(spec)]
    if fault := grader.check(spec, task):
        raise base.GraderError(f"task {task.id!r} cannot be graded: {fault}")
    answer = base.composed(base.extract(response, spec.answer, spec.tag))
    golds = tuple(map(base.composed, task.references))
    if any("\r\n" in gold for gold in golds):  # from a cell of CSV; answers have \n
        answer = answer.replace("\r\n", "\n")
        golds = tuple(gold.replace("\r\n", "\n") for gold in golds)
    return grader.grade(spec, replace(task, references=golds), answer)


_UNSEEN = str.maketrans("", "", base.INVISIBLE)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
#: ASCII's, and quotation marks and apostrophes as they are printed.
_DROP_PUNCTUATION = str.maketrans("", "", f"{string.punctuation}‘’‚‹›“”„«»「」『』")


def grade_exact(_spec: specs.ExactScorer, task: Task, answer: str) -> base.Score:
    return _graded(answer.strip() in {each.strip() for each in task.references}, task, answer)


def grade_normalized(_spec: specs.NormalizedScorer, task: Task, answer: str) -> base.Score:
    return _graded(_equal_normalized(task, answer), task, answer)


def grade_f1(_spec: specs.F1Scorer, task: Task, answer: str) -> base.Score:
    best = max(token_f1(answer, reference) for reference in task.references)
    return _graded(_equal_normalized(task, answer), task, answer, best, "F1")


def grade_anls(spec: specs.AnlsScorer, task: Task, answer: str) -> base.Score:
    best = max(anls(answer, reference, spec.threshold) for reference in task.references)
    return _graded(base.reaches(best, spec.hard_at), task, answer, best, "ANLS")


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
) -> base.Score:
    detail = f"; {measure} {soft:.2f}" if soft is not None else ""
    reason = "equals a reference" if solved else base.mismatch(task.references, answer) + detail
    return base.scored(solved, reason, answer, soft=soft)


def grade_contains(spec: specs.ContainsScorer, task: Task, answer: str) -> base.Score:
    # An empty answer must not pass merely because it lacks forbidden texts.
    if not answer.strip():
        return base.scored(False, "the answer is empty", answer)
    fold = str.casefold if spec.ignore_case else str
    held = fold(answer)
    wanted = {text: fold(base.composed(text)) in held for text in spec.contains or task.references}
    unwanted = dict.fromkeys(spec.not_contains)
    forbidden = [text for text in unwanted if fold(base.composed(text)) in held]
    required = [any(wanted.values())] if wanted and spec.match == "any" else [*wanted.values()]
    kept, faults = sum(required) + len(unwanted) - len(forbidden), []
    if not all(required):
        missing = [base.quote(text) for text, there in wanted.items() if not there]
        faults.append(f"lacks {(' and ' if spec.match == 'all' else ' or ').join(missing)}")
    if forbidden:
        faults.append(f"contains the forbidden {' and '.join(map(base.quote, forbidden))}")
    reason = base.sentence(faults) if faults else "contains what it must and nothing forbidden"
    return base.scored(not faults, reason, answer, soft=kept / (len(required) + len(unwanted)))


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


def grade_regex(spec: specs.RegexScorer, _task: Task, answer: str) -> base.Score:
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - few scorers need it

    flags = (regex.I if spec.ignore_case else 0) | (regex.M if spec.multiline else 0)
    try:
        match = regex.search(base.composed(spec.pattern), answer, flags, timeout=PATTERN_SECONDS)
    except TimeoutError:
        reason = f"{base.quote(spec.pattern)} takes more than {PATTERN_SECONDS:g} s on this answer"
        return base.scored(False, reason, answer)
    if spec.negate and not answer.strip():
        return base.scored(False, "the answer is empty", answer)
    reason = (
        "nothing forbidden occurs" if spec.negate else f"nothing matches {base.quote(spec.pattern)}"
    )
    if match:
        found = base.quote(str(match[0]))
        reason = f"{found} must not occur" if spec.negate else f"matches {found}"
    return base.scored(bool(match) != spec.negate, reason, answer)


def grade_json(spec: specs.JsonScorer, task: Task, answer: str) -> base.Score:
    try:
        value = _parse(answer)
    except (ValueError, RecursionError) as error:
        return base.scored(False, base.brief(f"{base.quote(answer)} is not JSON: {error}"), answer)
    if spec.schema_ is not None:
        fault = _schema_fault(spec.schema_, value)
        return base.scored(not fault, fault or "satisfies the schema", answer)
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
            raise base.GraderError(
                f"the JSON Schema refers to something that is not in it: {error.message}"
            ) from None
        raise base.GraderError(f"not a JSON Schema: {error.message}") from error
    if _depth(value) > _MOST_NESTED:
        return "the answer is nested too deeply"
    try:
        broken = next(validator.iter_errors(value), None)
    except UnicodeEncodeError:
        return "the answer holds half of a surrogate pair, which is not a character"
    if broken is None:
        return ""
    path = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in broken.instance_path)
    return base.brief(f"${''.join(path)}: {broken.message}")


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
            return f"the reference {base.quote(reference)} is not JSON: {error}"
    return base.needs_references(spec, task)


def _parse(text: str) -> Any:
    return json.loads(text.strip(base.INVISIBLE), parse_constant=refuse_constant)


class AnswerGrader(NamedTuple):
    """``grade`` returns an answer's score; ``check`` says why a task cannot be graded."""

    grade: Callable[[Any, Task, str], base.Score]
    check: Callable[[Any, Task], str | None] = base.needs_references


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

"""promptfoo's assertions that can be judged from the answer alone, and their combination."""

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from rapidfuzz.distance import Levenshtein

from skillopt_ci.aio import siblings
from skillopt_ci.config.scorers import PythonScorer, RubricScorer
from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.scorers.base import GraderError, Judge, Score, quote, verdict
from skillopt_ci.scorers.code import Functions, load_function
from skillopt_ci.scorers.rubric import rubric_scorer
from skillopt_ci.scorers.text import schema_fault, search_pattern
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import did_you_mean

#: What names a file in the place of a value.
FILE = "file://"
_LEVENSHTEIN_THRESHOLD = 5


class Shape(BaseModel):
    """A mapping of which other keys (providers, outputPath, …) are not our business."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class AssertionShape(Shape):
    """One assertion, or a set of them."""

    type: str
    value: Any = None
    threshold: float | None = None
    weight: float = Field(default=1.0, ge=0)
    transform: Any = None
    assertions: tuple["AssertionShape", ...] = Field(default=(), alias="assert")

    @property
    def negated(self) -> bool:
        """Whether the assertion must not hold."""
        return self.type.startswith("not-")

    @property
    def kind(self) -> str:
        """The type without its negation."""
        return self.type.removeprefix("not-")


def combined(
    scores: Sequence[Score], weights: Sequence[float], threshold: float | None, answer: str
) -> Score:
    """The score of several assertions; hard if all hold, or if soft reaches a given ``threshold``.

    Soft is the weighted mean; an assertion with a weight of 0 counts for nothing.
    """
    pairs = [(score, weight) for score, weight in zip(scores, weights, strict=True) if weight]
    total = math.fsum(weights)
    # Shares of the weights first: a product with a tiny weight would be lost.
    soft = math.fsum(score.soft * (weight / total) for score, weight in pairs)
    failed = [score.reason for score, _ in pairs if not score.hard]
    passed = not failed if threshold is None else soft >= threshold
    return verdict(passed, "; ".join(failed) or "all assertions hold", answer, soft=soft)


def unsupported(assertions: Sequence[AssertionShape]) -> str:
    """Why the first assertion that cannot be judged here cannot; empty if all can."""
    return next(filter(None, map(_unsupported, assertions)), "")


def _unsupported(assertion: AssertionShape) -> str:
    kind, name = assertion.kind, assertion.type
    if assertion.transform is not None:
        return f"{name}: transform is not supported"
    if kind in REFUSED:
        return f"{name} is not supported: {REFUSED[kind]}"
    if kind not in SUPPORTED:
        return f"the assertion {name!r} is not supported; {did_you_mean(kind, SUPPORTED)}"
    if kind == "python" and not str(assertion.value).startswith(FILE):
        return f"{name}: name a file, as file://judge.py:function"
    if kind == "regex":
        try:
            re.compile(_as_text(assertion.value))
        except re.error as error:
            return f"{_as_text(assertion.value)!r} is not a regular expression: {error}"
    return unsupported(assertion.assertions)


def _texts(assertion: AssertionShape, answer: str) -> tuple[bool, str]:
    """Whether the answer is, has or begins with the value, and what was looked at."""
    text = _as_text(assertion.value)
    match assertion.kind:
        case "equals" if isinstance(assertion.value, dict | list):
            try:
                same = bool(json.loads(answer) == assertion.value)
            except (ValueError, RecursionError):
                same = False
            return same, f"{quote(answer)} compared with {quote(json.dumps(assertion.value))}"
        case "equals":
            return answer == text, f"{quote(answer)} compared with {quote(text)}"
        case "starts-with":
            return answer.startswith(text), f"begins with {quote(answer[:40])}"
        case "ends-with":
            return answer.endswith(text), f"ends with {quote(answer[-40:])}"
        case "regex":
            return search_pattern(text, answer) is not None, f"searched for {quote(text)}"
    distance = Levenshtein.distance(answer, text)
    most = assertion.threshold or _LEVENSHTEIN_THRESHOLD
    return distance <= most, f"{distance} edits away, {most:g} allowed"


def _contains(assertion: AssertionShape, answer: str) -> tuple[bool, str]:
    """Also ``-any`` and ``-all`` of a list, or of a line with commas (and quotes where needed)."""
    kind, value = assertion.kind, assertion.value
    if not kind.endswith(("-any", "-all")):
        value = [value]
    elif not isinstance(value, list):
        rows = csv.reader([_as_text(value)], skipinitialspace=True)
        value = [text.strip() for row in rows for text in row]
    texts = [_as_text(one) for one in value]
    fold = str.lower if kind.startswith("i") else str
    missing = [quote(text) for text in texts if fold(text) not in fold(answer)]
    if kind.endswith("-any"):
        return len(missing) < len(texts), f"looked for one of {', '.join(map(quote, texts))}"
    if kind.endswith("-all"):
        return not missing, f"missing {', '.join(missing) or 'nothing'}"
    return not missing, f"looked for {quote(texts[0])}"


def _json(assertion: AssertionShape, answer: str) -> tuple[bool, str]:
    """The answer is JSON, or one of the objects in it is, none inside another."""
    if assertion.kind == "is-json":
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            return False, f"{quote(answer)} is not JSON"
        fault = _violation(assertion.value, value)
        return not fault, fault or "is JSON as demanded"
    faults: list[str] = []
    decoder, place = json.JSONDecoder(), 0
    while (start := answer.find("{", place)) >= 0:
        try:
            value, place = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            place = start + 1
        else:
            faults.append(_violation(assertion.value, value))
    return "" in faults, next(filter(None, faults), f"{len(faults)} JSON values found")


def _violation(schema: Any, value: Any) -> str:
    if schema is None or schema == "":
        return ""
    shape = load_yaml(schema) if isinstance(schema, str) else schema
    return schema_fault(shape, value, "Draft7Validator")


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_JUDGES = {
    **dict.fromkeys(("equals", "starts-with", "ends-with", "regex", "levenshtein"), _texts),
    **dict.fromkeys(("contains", "contains-any", "contains-all"), _contains),
    **dict.fromkeys(("icontains", "icontains-any", "icontains-all"), _contains),
    **dict.fromkeys(("is-json", "contains-json"), _json),
}
#: Every type that is understood; ``not-`` may stand before each but ``assert-set``.
SUPPORTED = (*_JUDGES, "python", "llm-rubric", "assert-set")
#: Known types that cannot be judged here, and why.
REFUSED: Mapping[str, str] = {
    "javascript": "only promptfoo runs JavaScript; write it as a python file",
    "similar": "it needs an embedding model, which no role of the configuration is",
    "latency": "it judges the server, not the skill",
    "cost": "it judges the price, not the skill; see `budget`",
    "webhook": "grading does not ask servers of its own",
}


@dataclass(frozen=True, slots=True)
class Grading:
    """Grades an ``answer``; ``folder`` is that of the promptfoo file."""

    task: Task
    answer: str
    folder: Path
    judge: Judge
    functions: Functions

    async def score(self, assertion: AssertionShape) -> Score:
        """Judge by ``assertion``; raises GraderError if that cannot be done."""
        match assertion.kind:
            case "assert-set":
                inner = assertion.assertions
                async with siblings() as group:
                    running = [group.create_task(self.score(one)) for one in inner]
                scores = [task.result() for task in running]
                weights = [one.weight for one in inner]
                return combined(scores, weights, assertion.threshold, self.answer)
            case "llm-rubric":
                return await self._rubric(assertion)
            case "python":
                return await self._python(assertion)
        try:
            holds, reason = _JUDGES[assertion.kind](assertion, self.answer)
        except GraderError as error:
            raise GraderError(f"{assertion.type}: {error}") from error
        except TimeoutError as error:
            return verdict(False, str(error), self.answer)
        return verdict(holds != assertion.negated, reason, self.answer)

    async def _rubric(self, assertion: AssertionShape) -> Score:
        spec = RubricScorer(type="rubric", rubric=str(assertion.value))
        if assertion.threshold is not None:
            spec = spec.model_copy(update={"hard_at": assertion.threshold})
        score = await rubric_scorer(spec, self.judge)(self.task, self.answer)
        if assertion.negated:
            return replace(score, hard=1 - score.hard, soft=1 - score.soft)
        return score

    async def _python(self, assertion: AssertionShape) -> Score:
        """A Python assertion returns a truth value, a score, or pass, score and reason."""
        path, _, function = str(assertion.value).removeprefix(FILE).partition(":")
        entry = f"{path}:{function or 'get_assert'}"
        load_function(entry, self.folder)
        timeout = PythonScorer(type="python", entry=entry).timeout
        context = {"vars": self.task.metadata["vars"], "prompt": self.task.messages[-1].content}
        returned = await self.functions.call(
            entry, (self.answer, context), root=self.folder, timeout=timeout
        )
        result = returned if isinstance(returned, dict) else {"score": returned}
        score = result.get("score", result.get("pass"))
        if not isinstance(score, bool | int | float) or not 0 <= score <= 1:
            raise GraderError(f"{entry} returned {returned!r:.80}, expected a score from 0 to 1")
        holds = bool(result.get("pass", score > 0))
        if assertion.threshold is not None:
            holds = holds and score >= assertion.threshold
        passed = holds != assertion.negated
        soft = float(passed) if assertion.negated or isinstance(score, bool) else float(score)
        reason = str(result.get("reason") or f"{entry} gave {score}")
        return verdict(passed, reason, self.answer, soft=soft)

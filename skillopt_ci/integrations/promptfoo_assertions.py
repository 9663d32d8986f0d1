"""promptfoo's assertions that can be judged from the answer alone, and their combination."""

import csv
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import Draft7Validator, validator_for
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rapidfuzz.distance import Levenshtein
from referencing import Registry

from skillopt_ci.aio import siblings
from skillopt_ci.config.scorers import PythonScorer, RubricScorer
from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.scorers.base import GraderError, Judge, Score, one_line, quote, verdict
from skillopt_ci.scorers.code import Functions, load_function
from skillopt_ci.scorers.rubric import RubricGrader
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import did_you_mean

# A promptfoo configuration, as far as it describes tests.


_NOT = "not-"


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


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
    def kind(self) -> str:
        """The type without its negation."""
        return self.type.removeprefix(_NOT)

    @property
    def negated(self) -> bool:
        """Whether the assertion must not hold."""
        return self.type.startswith(_NOT)


class OptionsShape(Shape):
    """The options of a test that change what is asked or graded."""

    prefix: str = ""
    suffix: str = ""
    transform: Any = None
    disable_var_expansion: bool = Field(default=False, alias="disableVarExpansion")


class TestShape(Shape):
    """One test, or the default of all."""

    __test__ = False  # nothing for pytest

    description: str = ""
    vars: dict[str, Any] = Field(default_factory=dict)
    assertions: tuple[AssertionShape, ...] = Field(default=(), alias="assert")
    threshold: float | None = None
    options: OptionsShape = OptionsShape()
    metadata: dict[str, Any] = Field(default_factory=dict)


class PromptShape(Shape):
    """A prompt with a name."""

    raw: str | None = None
    id: str | None = None
    label: str = ""


class FileShape(Shape):
    """The file."""

    prompts: Annotated[list[str | PromptShape], BeforeValidator(_listed)]
    tests: Annotated[list[str | TestShape], BeforeValidator(_listed)]
    default: TestShape = Field(default=TestShape(), alias="defaultTest")
    scenarios: list[Any] = Field(default_factory=list)


_LEVENSHTEIN_THRESHOLD = 5


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
    if kind == "python" and not str(assertion.value).startswith("file://"):
        return f"{name}: name a file, as file://judge.py:function"
    if kind == "regex":
        try:
            re.compile(_text(assertion.value))
        except re.error as error:
            return f"{_text(assertion.value)!r} is not a regular expression: {error}"
    return unsupported(assertion.assertions)


Judged = tuple[bool, str]


def _equals(assertion: AssertionShape, answer: str) -> Judged:
    value = assertion.value
    if isinstance(value, dict | list):
        try:
            same = bool(json.loads(answer) == value)
        except ValueError:
            same = False
        return same, f"{quote(answer)} compared with {quote(json.dumps(value))}"
    return answer == _text(value), f"{quote(answer)} compared with {quote(_text(value))}"


def _contains(assertion: AssertionShape, answer: str) -> Judged:
    """Also ``-any`` and ``-all`` of a list, or of a line with commas (and quotes where needed)."""
    kind, value = assertion.kind, assertion.value
    listed = kind.endswith(("-any", "-all"))
    if listed and not isinstance(value, list):
        rows = csv.reader([_text(value)], skipinitialspace=True)
        value = [text.strip() for row in rows for text in row]
    texts = [_text(one) for one in (value if listed else [value])]
    fold = str.lower if kind.startswith("i") else str
    missing = [text for text in texts if fold(text) not in fold(answer)]
    if kind.endswith("-any"):
        return len(missing) < len(texts), f"looked for one of {', '.join(map(quote, texts))}"
    if kind.endswith("-all"):
        return not missing, f"missing {', '.join(map(quote, missing)) or 'nothing'}"
    return not missing, f"looked for {quote(texts[0])}"


def _levenshtein(assertion: AssertionShape, answer: str) -> Judged:
    distance = Levenshtein.distance(answer, _text(assertion.value))
    most = assertion.threshold or _LEVENSHTEIN_THRESHOLD
    return distance <= most, f"{distance} edits away, {most:g} allowed"


def _is_json(assertion: AssertionShape, answer: str) -> Judged:
    try:
        value = json.loads(answer)
    except ValueError:
        return False, f"{quote(answer)} is not JSON"
    fault = _violation(assertion.value, value)
    return not fault, fault or "is JSON as demanded"


def _contains_json(assertion: AssertionShape, answer: str) -> Judged:
    """Look at the objects in the answer, none inside another."""
    found: list[Any] = []
    decoder, place = json.JSONDecoder(), 0
    while (start := answer.find("{", place)) >= 0:
        try:
            value, place = decoder.raw_decode(answer, start)
            found.append(value)
        except (ValueError, RecursionError):
            place = start + 1
    faults = [_violation(assertion.value, value) for value in found]
    return "" in faults, next(filter(None, faults), f"{len(found)} JSON values found")


def _violation(schema: Any, value: Any) -> str:
    if schema is None or schema == "":
        return ""
    shape = load_yaml(schema) if isinstance(schema, str) else schema
    try:
        kind = validator_for(shape, default=Draft7Validator)
        kind.check_schema(shape)
        fault = best_match(kind(shape, registry=Registry()).iter_errors(value))
    except SchemaError as error:
        raise GraderError(f"not a JSON Schema: {error.message}") from error
    return one_line(f"{fault.json_path}: {fault.message}") if fault else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_TEXT: Mapping[str, Callable[[AssertionShape, str], Judged]] = MappingProxyType(
    {
        "equals": _equals,
        **dict.fromkeys(("contains", "contains-any", "contains-all"), _contains),
        **dict.fromkeys(("icontains", "icontains-any", "icontains-all"), _contains),
        "starts-with": lambda assertion, answer: (
            answer.startswith(_text(assertion.value)),
            f"begins with {quote(answer[:40])}",
        ),
        "ends-with": lambda assertion, answer: (
            answer.endswith(_text(assertion.value)),
            f"ends with {quote(answer[-40:])}",
        ),
        "regex": lambda assertion, answer: (
            re.search(_text(assertion.value), answer) is not None,
            f"searched for {quote(_text(assertion.value))}",
        ),
        "levenshtein": _levenshtein,
        "is-json": _is_json,
        "contains-json": _contains_json,
    }
)
#: Every type that is understood; ``not-`` may stand before each but ``assert-set``.
SUPPORTED = (*_TEXT, "python", "llm-rubric", "assert-set")
#: Known types that cannot be judged here, and why.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "javascript": "only promptfoo runs JavaScript; write it as a python file",
        "similar": "it needs an embedding model, which no role of the configuration is",
        "latency": "it judges the server, not the skill",
        "cost": "it judges the price, not the skill; see `budget`",
        "webhook": "grading does not ask servers of its own",
    }
)

_FUNCTION = "get_assert"


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
            holds, reason = _TEXT[assertion.kind](assertion, self.answer)
        except GraderError as error:
            raise GraderError(f"{assertion.type}: {error}") from error
        return verdict(holds != assertion.negated, reason, self.answer)

    async def _rubric(self, assertion: AssertionShape) -> Score:
        spec = RubricScorer(type="rubric", rubric=str(assertion.value))
        if assertion.threshold is not None:
            spec = spec.model_copy(update={"hard_at": assertion.threshold})
        score = await RubricGrader(spec, self.judge).score(self.task, self.answer)
        if assertion.negated:
            return replace(score, hard=1 - score.hard, soft=1 - score.soft)
        return score

    async def _python(self, assertion: AssertionShape) -> Score:
        """A Python assertion returns a truth value, a score, or pass, score and reason."""
        path, _, function = str(assertion.value).removeprefix("file://").partition(":")
        entry = f"{path}:{function or _FUNCTION}"
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

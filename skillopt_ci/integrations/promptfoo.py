"""promptfoo's tests as tasks: the target answers each prompt, our scorers grade the answer."""

import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import glob
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from jinja2 import ChainableUndefined, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, FiniteFloat
from pydantic_core import ValidationError, to_jsonable_python

from skillopt_ci.config import scorers
from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.confinement import current
from skillopt_ci.environments.api import Division, read_options
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.messages import CHAT_ROLES, Message
from skillopt_ci.rollout.environment import Environment, Split
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import did_you_mean, user_errors, user_text

FILE = "file://"  # the prefix of a value that names a file
_ROLES = ("system", "developer", "user", "assistant")
_SERVER = ("latency", "cost")  # they do not judge the answer, but count for a threshold
_PROGRAMS = {".js", ".ts", ".mjs", ".cjs", ".py"}
_NAMED = re.compile(r"\{\{\s*(\w+)\s*\}\}")
#: A text that may be the name of a file or a pattern. A longer one, with more folders than glob can
#: follow, is a prompt, as are "README", "Why?" and JSON, which glob reads as a set of letters.
_FILE_NAME = re.compile(r"[^\0\n]{0,400}(?:[*/][^\0\n]{0,400}|\.\w{2,5})")
#: What only promptfoo's own run has; the first alternative skips comments.
_OUTSIDE = re.compile(r"\{#[^#]*#\}|\{[{%][^{}]*\b(_conversation\b|env(?=\.\w|\[))")
_ITEM = re.compile(r"(?:\".*?\"|[^,]+)(?=\s*,|\s*\Z)")
#: Bounds for a test's variables, whose lists multiply and whose texts may name each other.
_MOST_CHOICES, _MOST_CHARACTERS = 10_000, 1_000_000


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


#: A text, or a mapping that has it.
_Prompt = Annotated[
    str,
    BeforeValidator(lambda one: one.get("raw") or one.get("id") if isinstance(one, dict) else one),
]
#: A test or the name of a file; the name of a program that makes tests is in a mapping.
_PATH = BeforeValidator(lambda one: one.get("path", one) if isinstance(one, dict) else one)
_GIVEN = BeforeValidator(lambda one: one or ())  # a key without a value is null in YAML


class Shape(BaseModel, frozen=True, populate_by_name=True):
    @classmethod
    def read(cls, data: Any, where: str) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            lines = [
                f"{where}: {'.'.join(map(str, one['loc']))}: {one['msg']}"
                for one in error.errors(include_url=False)
                if one["loc"][-1:] != ("str",)  # a test is a mapping, or else the name of a file
            ]
            raise UsageError("\n".join(lines[:10])) from None


class AssertionShape(Shape):
    type: str = Field(validation_alias=AliasChoices("type", "$ref"))
    value: Any = None
    threshold: FiniteFloat | None = None
    weight: FiniteFloat = Field(default=1.0, ge=0)
    transform: Any = None
    rubric_prompt: Any = Field(default=None, alias="rubricPrompt")
    assertions: tuple["AssertionShape", ...] = Field(default=(), alias="assert")


class OptionsShape(Shape):
    prefix: str = ""
    suffix: str = ""
    transform: Any = None
    postprocess: Any = None
    transform_vars: Any = Field(default=None, alias="transformVars")
    rubric_prompt: Any = Field(default=None, alias="rubricPrompt")
    disable_var_expansion: bool = Field(default=False, alias="disableVarExpansion")
    disable_default: bool = Field(default=False, alias="disableDefaultAsserts")


class TestShape(Shape):
    __test__ = False  # not a test class of pytest

    description: Annotated[str, BeforeValidator(lambda one: one or "")] = ""
    vars: dict[str, Any] = Field(default_factory=dict)
    assertions: Annotated[tuple[AssertionShape, ...], _GIVEN] = Field(default=(), alias="assert")
    threshold: float | None = None
    scoring: Any = Field(default=None, alias="assertScoringFunction")
    prompts: Any = None
    options: OptionsShape = OptionsShape()
    metadata: dict[str, Any] = Field(default_factory=dict)


class FileShape(Shape):
    prompts: Annotated[list[_Prompt], BeforeValidator(_listed)]
    tests: Annotated[list[Annotated[str | TestShape, _PATH]], BeforeValidator(_listed)] = []
    default: TestShape = Field(default=TestShape(), alias="defaultTest")
    scenarios: list[Any] = Field(default_factory=list)


class PromptfooOptions(Division):
    file: str = Field(default="promptfooconfig.yaml", min_length=1)
    """The promptfoo configuration. Its providers are not used: the target answers."""


class PromptfooEnvironment(Environment):
    def __init__(
        self, options: Mapping[str, object], root: Path, _environ: Mapping[str, str]
    ) -> None:
        super().__init__(options, root)
        read = read_options(PromptfooOptions, options)
        self._splits = read.divided(read_tests(root / read.file))

    def tasks(self, split: Split) -> tuple[Task, ...]:
        return self._splits[split]


class _Unsupported(SkilloptError):
    """None of our scorers grades the assertion as promptfoo does; the message says why."""


def _contained(assertion: AssertionShape) -> list[str]:
    value = assertion.value
    if not isinstance(value, list):
        value = [text.strip('"') for text in map(str.strip, _ITEM.findall(_as_text(value))) if text]
    if not value:
        raise _Unsupported(f"{assertion.type} names no text")
    return [re.escape(_as_text(one)) for one in value]


def _escaped(assertion: AssertionShape) -> str:
    return re.escape(_as_text(assertion.value))


#: Assertions that search the answer, as regular expressions. Each name may have the prefix
#: ``not-``; those with "contains", also ``i``.
_PATTERNS: Mapping[str, Callable[[AssertionShape], str]] = {
    "equals": lambda one: rf"\A{_escaped(one)}\Z",
    "contains": _escaped,
    "contains-any": lambda one: "|".join(_contained(one)),
    "contains-all": lambda one: r"(?s)\A" + "".join(f"(?=.*{text})" for text in _contained(one)),
    "starts-with": lambda one: rf"\A{_escaped(one)}",
    "ends-with": lambda one: rf"{_escaped(one)}\Z",
    "regex": lambda one: _as_text(one.value),
    "levenshtein": lambda one: (
        rf"\A(?:{_escaped(one)}){{e<={int(5 if one.threshold is None else one.threshold)}}}\Z"
    ),
}
SUPPORTED = (
    *(*_PATTERNS, "icontains", "icontains-any", "icontains-all"),
    *("is-json", "llm-rubric", "assert-set"),
)
#: Any use raises; a test's own variable, or one that the template sets, takes its place.
_ABSENT = StrictUndefined("env exists only in promptfoo", exc=_Unsupported)  # type: ignore[arg-type]


def _refuse_code(shape: Shape, where: str) -> None:
    """Refuse programs, and prompts of promptfoo's own, which would change what is graded."""
    given = shape.model_dump(by_alias=True, exclude_none=True).keys()
    code = ("transform", "postprocess", "transformVars", "rubricPrompt", "assertScoringFunction")
    for name in filter(given.__contains__, code):
        raise _Unsupported(f"{where}{name} is not supported")


def _scorer(assertion: AssertionShape) -> scorers.ScorerSpec:
    """The scorer that grades as promptfoo does. Raises :class:`_Unsupported` and other errors."""
    name, value, threshold = assertion.type, assertion.value, assertion.threshold
    structure = isinstance(value, dict | list)
    kind = name.removeprefix("not-")
    plain = kind.removeprefix("i")
    _refuse_code(assertion, f"{name}: ")
    if value is None and (name == "llm-rubric" or plain in _PATTERNS):
        raise _Unsupported(f"{name} has no value")
    match name:
        case "assert-set":
            return _combined(assertion.assertions, threshold)
        case "llm-rubric":
            hard_at = {} if threshold is None else {"hard_at": threshold}
            rubric = _dump(value) if structure else _as_text(value)
            return scorers.RubricScorer(type="rubric", rubric=rubric, **hard_at)
        case "is-json":
            return _json((load_yaml(value) if isinstance(value, str) else value) or {})
        case "equals" if structure:
            return _json({"const": value})
    if kind not in SUPPORTED:
        meant = did_you_mean(kind, SUPPORTED) or f"; known are: {', '.join(sorted(SUPPORTED))}"
        raise _Unsupported(f"the assertion {name!r} is not supported{meant}")
    if plain not in _PATTERNS or (kind == "equals" and structure):
        raise _Unsupported(f"{name} is not supported: no scorer turns it around")
    if structure and not plain.startswith("contains-"):
        raise _Unsupported(f"{name} looks for a text, not for a list or mapping")
    regex, folds = _PATTERNS[plain](assertion), plain != kind
    return scorers.RegexScorer(type="regex", pattern=regex, ignore_case=folds, negate=kind != name)


def _json(schema: Any) -> scorers.JsonScorer:
    if not isinstance(schema, dict):
        raise _Unsupported("a JSON Schema must be a mapping")
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}  # as in promptfoo
    return scorers.JsonScorer.model_validate({"type": "json", "schema": schema})


def _combined(assertions: Sequence[AssertionShape], threshold: float | None) -> scorers.ScorerSpec:
    if not (counted := [one for one in assertions if one.weight]):
        raise _Unsupported("no assertion has a weight")
    parts, weights = tuple(map(_scorer, counted)), tuple(one.weight for one in counted)
    if threshold is None and len(set(weights)) == 1:
        return parts[0] if len(parts) == 1 else scorers.AllScorer(type="all", of=parts)
    return scorers.WeightedScorer(
        type="weighted", of=parts, weights=weights, hard_at=1.0 if threshold is None else threshold
    )


def _as_text(value: Any) -> str:
    """``value`` as JavaScript writes it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case list():
            return ",".join(map(_as_text, value))
        case dict():
            return "[object Object]"
    return str(value)


def _dump(value: Any, indent: int | None = None) -> str:
    """Nunjucks' filter ``dump``: ``value`` as JSON."""
    plain = to_jsonable_python(value, fallback=_as_text, inf_nan_mode="null")  # keys are texts
    separators = (",", ":") if indent is None else None
    return json.dumps(plain, ensure_ascii=False, indent=indent, separators=separators)


def rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """Fill Nunjucks templates with Jinja, which reads them too; unset names are empty."""
    match value:
        case str():
            engine = ImmutableSandboxedEnvironment(
                keep_trailing_newline=True, undefined=ChainableUndefined, finalize=_as_text
            )
            engine.filters["dump"] = _dump
            engine.globals["env"] = _ABSENT
            with user_errors(f"the template {value[:60]!r} cannot be rendered:"):
                return engine.from_string(value).render(values)
        case list():
            return [rendered(one, values) for one in value]
        case dict():
            return {key: rendered(one, values) for key, one in value.items()}
    return value


def read_tests(file: Path) -> tuple[Task, ...]:
    """A task for each pair of prompt and test; warns of tests that no scorer can grade."""
    config = FileShape.read(_data(file), str(file))
    if config.scenarios:
        raise UsageError(f"{file}: scenarios are not supported; write them out as tests")
    prompts = [text for prompt in config.prompts for text in _prompts(prompt, file.parent)]
    tests = [
        _with(config.default, test)
        for given in config.tests
        for test in (_tests(given, file.parent) if isinstance(given, str) else [given])
    ]
    found, log = list[Task](), logging.getLogger(__name__)
    if any(one.type in _SERVER for test in tests for one in test.assertions):
        log.warning("%s: %s are not graded: they judge the server", file, " and ".join(_SERVER))
    for number, test in enumerate(tests, 1):
        where = f"{file}: test {number}"
        try:
            found += [*_of_test(number, prompts, test, file)]
        except _Unsupported as why:
            log.warning("%s is left out: %s", where, why)
        except UsageError as error:
            raise UsageError(f"{where}: {error.message}") from error
    if not found:
        raise UsageError(f"{file}: there is no test that can be graded here")
    return tuple(found)


def _of_test(number: int, prompts: Sequence[str], test: TestShape, file: Path) -> Iterator[Task]:
    if not test.assertions:
        raise _Unsupported("it has no assertions, so that every answer would pass")
    own = {"", *test.vars}  # a comment is found as ""
    usable = [one for one in enumerate(prompts, 1) if own.issuperset(_OUTSIDE.findall(one[1]))]
    if len(usable) < len(prompts):
        logging.getLogger(__name__).warning(
            "%s: test %d: prompts that use _conversation or env are left out", file, number
        )
    _refuse_code(test, "")
    _refuse_code(test.options, "options.")
    if test.prompts is not None and len(prompts) > 1:
        raise _Unsupported("prompts is not supported")
    choices = [*_choices(test, file.parent)]
    for variant, chosen in enumerate(choices, 1):
        for place, prompt in usable:
            which = f"-vars-{variant}" if len(choices) > 1 else ""
            which += f"-prompt-{place}" if len(prompts) > 1 else ""
            yield _task(f"test-{number}{which}", prompt, test, chosen, file)


def _task(name: str, prompt: str, test: TestShape, chosen: Mapping[str, Any], file: Path) -> Task:
    messages = _messages(f"{test.options.prefix}{prompt}{test.options.suffix}", chosen)
    given = [one for one in test.assertions if one.type not in _SERVER or test.threshold]
    assertions = [_filled(one, chosen, file.parent) for one in given or test.assertions]
    told = [one.model_dump(mode="json", exclude_defaults=True, by_alias=True) for one in assertions]
    try:
        scorer = _combined(assertions, test.threshold)
    except ValidationError as error:
        raise _Unsupported(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    except yaml.YAMLError as error:
        raise _Unsupported(" ".join(str(error).split())) from error
    return Task(
        id=name,
        messages=messages,
        references=tuple(
            _as_text(one.value)
            for one in assertions
            if one.type == "equals" and not isinstance(one.value, dict | list)
        ),
        # Shown to analysts, for training tasks only.
        reference_text=yaml.safe_dump(told, sort_keys=False, allow_unicode=True),
        task_type=str(test.metadata.get("task_type", "")),
        metadata=to_jsonable_python(
            {"description": test.description, "vars": chosen}, fallback=str, inf_nan_mode="null"
        ),
        scorer=scorer,
        file=file,
    )


def _filled(assertion: AssertionShape, chosen: Mapping[str, Any], folder: Path) -> AssertionShape:
    value = rendered(assertion.value, chosen)
    if assertion.type.removeprefix("not-") in SUPPORTED:
        value = _value(value, folder)
    inner = tuple(_filled(one, chosen, folder) for one in assertion.assertions)
    return assertion.model_copy(update={"value": value, "assertions": inner})


def _with(default: TestShape, test: TestShape) -> TestShape:
    single = ("threshold", "scoring", "prompts")
    inherited = () if test.options.disable_default else default.assertions
    return test.model_copy(
        update={
            "vars": {**default.vars, **test.vars},
            "assertions": (*inherited, *test.assertions),
            **{key: getattr(default, key) for key in single if getattr(test, key) is None},
            "options": default.options.model_copy(
                update=test.options.model_dump(exclude_unset=True)
            ),
            "metadata": {**default.metadata, **test.metadata},
        }
    )


def _choices(test: TestShape, folder: Path) -> Iterator[dict[str, Any]]:
    spread = {
        name: [_value(one, folder) for one in value]
        if isinstance(value, list) and not test.options.disable_var_expansion
        else [_value(value, folder)]
        for name, value in test.vars.items()
    }
    if (number := math.prod(map(len, spread.values()))) > _MOST_CHOICES:
        lists = ", ".join(name for name, values in spread.items() if len(values) > 1)
        raise UsageError(f"the lists of {lists} make {number:,} tasks, more than {_MOST_CHOICES:,}")
    for values in product(*spread.values()):
        chosen = {
            name: one.removesuffix("\n") if isinstance(one, str) else one
            for name, one in zip(spread, values, strict=True)
        }
        # values may name others, which may name others in turn
        for _ in range(5):
            chosen = {name: _with_others(name, value, chosen) for name, value in chosen.items()}
        yield chosen


def _with_others(name: str, value: Any, values: Mapping[str, Any]) -> Any:
    named = _NAMED.findall(value) if isinstance(value, str) else []
    if sum(len(_as_text(values.get(other, ""))) for other in named) > _MOST_CHARACTERS:
        raise UsageError(
            f"the variable {name!r} grows beyond {_MOST_CHARACTERS:,} characters by naming others"
        )
    return _NAMED.sub(lambda one: _as_text(values.get(one[1], one[0])), value) if named else value


def _value(value: Any, folder: Path) -> Any:
    if not (isinstance(value, str) and value.startswith(FILE)):
        return value
    path = _path(value, folder)
    return _data(path) if path.suffix in {".yaml", ".yml", ".json"} else user_text(path)


def _tests(name: str, folder: Path) -> Iterator[TestShape]:
    for path in _paths(name, folder) or [_path(name, folder)]:
        if path.suffix not in {".yaml", ".yml", ".json", ".jsonl"}:
            raise UsageError(f"{path}: tests are read from .yaml, .json and .jsonl files")
        for number, one in enumerate(_listed(_data(path)), 1):
            yield TestShape.read(one, f"{path}: test {number}")


def _prompts(name: str, folder: Path) -> Iterator[str]:
    if not (paths := _paths(name, folder)) and not name.startswith(FILE):
        yield name
        return
    for path in paths or [_path(name, folder)]:
        if path.suffix in {".csv", ".jsonl"}:
            raise UsageError(f"{path}: prompts are read from .txt, .md, .j2, .json and .yaml files")
        if path.suffix in {".yaml", ".yml"}:
            yield json.dumps(_data(path), ensure_ascii=False)
        elif path.suffix == ".txt":
            yield from filter(None, map(str.strip, re.split(r"(?m)^---\s*$", user_text(path))))
        else:
            yield user_text(path)


def _paths(value: str, folder: Path) -> list[Path]:
    """The files that match ``value``, which may have no prefix."""
    name = value.removeprefix(FILE) if _FILE_NAME.fullmatch(value) else ""
    found = sorted(glob(name, root_dir=folder, recursive=True))  # noqa: PTH207
    return [_path(one, folder) for one in found if (folder / one).is_file()]


def _path(value: str, folder: Path) -> Path:
    path = folder / value.removeprefix(FILE)
    if path.suffix.partition(":")[0] in _PROGRAMS:  # a name may follow: make.py:prompt
        raise UsageError(f"{path}: texts that a program makes are not supported; write them out")
    if current().hides(path, current().root):
        raise UsageError(f"{path} is not a file of the repository that may be read")
    return path


def _messages(template: str, values: Mapping[str, Any]) -> tuple[Message, ...]:
    filled = rendered(template, values)
    # filled in as a text, a value with a quotation mark would break the JSON
    turns = rendered(_turns(template), values) or _turns(filled)
    said = (Message(CHAT_ROLES[one["role"]], _said(one.get("content", ""))) for one in turns)
    return tuple(said) or (Message("user", filled),)


def _turns(text: str) -> list[dict[str, Any]]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return []
    chats = isinstance(told, list) and all(
        isinstance(one, dict) and one.get("role") in _ROLES for one in told
    )
    return told if chats else []


def _said(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    with user_errors("a prompt has a message with a part that is not text:"):
        return "\n".join(_as_text(part["text"]) for part in parts)


def _data(path: Path) -> Any:
    text = user_text(path)
    if path.suffix == ".jsonl":  # an array with as many lines, since errors name them
        text = "[" + ",\n".join(filter(str.strip, text.split("\n"))) + "]"
    try:
        # YAML does not join the halves of JSON's surrogate pairs
        return json.loads(text) if path.suffix.startswith(".json") else load_yaml(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error

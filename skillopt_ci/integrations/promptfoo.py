"""promptfoo's tests as tasks: the target answers each prompt, and the assertions grade it."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BeforeValidator, Field, ValidationError

from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.environments.api import Division, read_options
from skillopt_ci.errors import UsageError
from skillopt_ci.integrations.promptfoo_assertions import (
    FILE,
    AssertionShape,
    Grading,
    Shape,
    unsupported,
)
from skillopt_ci.messages import Message
from skillopt_ci.rollout.environment import Environment, Parts, Split
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers.base import Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import read_text

_PROGRAMS = {".js", ".ts", ".mjs", ".cjs", ".py"}

# A promptfoo configuration, as far as it describes tests.


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _prompt(value: Any) -> object:
    return value.get("raw") or value.get("id") or "" if isinstance(value, dict) else value


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


class FileShape(Shape):
    """The file."""

    prompts: Annotated[list[Annotated[str, BeforeValidator(_prompt)]], BeforeValidator(_listed)]
    tests: Annotated[list[str | TestShape], BeforeValidator(_listed)]
    default: TestShape = Field(default=TestShape(), alias="defaultTest")
    scenarios: list[Any] = Field(default_factory=list)


class PromptfooOptions(Division):
    """Options of `environment: {type: promptfoo}`."""

    file: str = Field(default="promptfooconfig.yaml", min_length=1)
    """The promptfoo configuration. Its providers are not used: the target answers."""


class PromptfooEnvironment(Environment):
    """The tests of a promptfoo configuration."""

    def __init__(
        self, options: Mapping[str, object], root: Path, environ: Mapping[str, str]
    ) -> None:
        self._functions = Functions(environ)
        super().__init__(options, root)
        read = read_options(PromptfooOptions, options)
        self._file = root / read.file
        self._splits = read.divided(read_tests(self._file))

    @property
    def code(self) -> Literal["confined"]:
        """Where its code meets answers: an assertion's function has a process of its own."""
        return "confined"

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the tests of a split as tasks."""
        return self._splits[split]

    async def grade(self, task: Task, attempt: Attempt, parts: Parts) -> Score:
        """Grade by the test's assertions: hard when it passes, soft is its score."""
        grading = Grading(task, attempt.response, self._file.parent, parts.judge, self._functions)
        return await grading.score(assertion_set(task))

    def close(self) -> None:
        """End the workers of assertions that are functions."""
        self._functions.close()


# Reading the tests.


def rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """``value`` with ``values`` filled into its Nunjucks templates, which Jinja reads as well.

    Unset names are empty. Raises UsageError for a template that cannot be read or used.
    """
    match value:
        case str():
            engine = ImmutableSandboxedEnvironment(autoescape=False, keep_trailing_newline=True)
            try:
                return engine.from_string(value).render(values)
            except TemplateError as error:
                text = f"the template {value[:60]!r} cannot be rendered: {error}"
                raise UsageError(text) from error
        case list():
            return [rendered(one, values) for one in value]
        case dict():
            return {key: rendered(one, values) for key, one in value.items()}
    return value


Given = TypeVar("Given", FileShape, TestShape)


def read_tests(file: Path) -> tuple[Task, ...]:
    """Read the tests of ``file``: each prompt with each test is a task.

    Variables that are lists are spread out. A test with an assertion that cannot be judged here is
    left out with a warning. Raises UsageError for what cannot be read, and if no test is left.
    """
    config = _shaped(FileShape, _data(file), str(file))
    if config.scenarios:
        raise UsageError(f"{file}: scenarios are not supported; write them out as tests")
    folder = file.parent
    prompts = [text for prompt in config.prompts for text in _prompts(prompt, folder)]
    tests = [test for given in config.tests for test in _tests(given, folder)]
    found = tuple(_spread(prompts, [_with(config.default, test) for test in tests], file))
    if not found:
        raise UsageError(f"{file}: there is no test that can be judged here")
    return found


def _spread(prompts: Sequence[str], tests: Sequence[TestShape], file: Path) -> Iterator[Task]:
    for number, test in enumerate(tests, 1):
        where = f"{file}: test {number}"
        if not test.assertions:
            raise UsageError(f"{where} has no assertions, so that every answer would pass")
        transformed = test.options.transform is not None
        why = "options.transform is not supported" if transformed else unsupported(test.assertions)
        if why:
            logging.getLogger(__name__).warning("%s is left out: %s", where, why)
            continue
        choices = [*_choices(test, file.parent)]
        for variant, chosen in enumerate(choices, 1):
            for place, prompt in enumerate(prompts, 1):
                name = f"test-{number}"
                name += f"-vars-{variant}" if len(choices) > 1 else ""
                name += f"-prompt-{place}" if len(prompts) > 1 else ""
                yield _task(name, prompt, test, chosen, file)


def _task(name: str, prompt: str, test: TestShape, chosen: Mapping[str, Any], file: Path) -> Task:
    text = rendered(f"{test.options.prefix}{prompt}{test.options.suffix}", chosen)
    assertions = [_filled(one, chosen, file.parent) for one in test.assertions]
    told = [one.model_dump(mode="json", exclude_defaults=True, by_alias=True) for one in assertions]
    return Task(
        id=name,
        messages=_messages(text),
        references=tuple(
            str(one.value)
            for one in assertions
            if one.type == "equals" and not isinstance(one.value, dict | list)
        ),
        # for the analysts of training tasks
        reference_text=yaml.safe_dump(told, sort_keys=False, allow_unicode=True),
        task_type=str(test.metadata.get("task_type", "")),
        metadata={
            "description": test.description,
            "vars": dict(chosen),
            "assert": [one.model_dump(mode="json") for one in assertions],
            "threshold": test.threshold,
        },
        file=file,
    )


def assertion_set(task: Task) -> AssertionShape:
    """The assertions that :func:`read_tests` wrote into a task, as a set with its threshold."""
    facts = {key: task.metadata[key] for key in ("assert", "threshold")}
    return AssertionShape.model_validate({"type": "assert-set", **facts})


def _filled(assertion: AssertionShape, chosen: Mapping[str, Any], folder: Path) -> AssertionShape:
    value = rendered(assertion.value, chosen)
    if assertion.kind != "python":
        value = _value(value, folder)
    inner = tuple(_filled(one, chosen, folder) for one in assertion.assertions)
    return assertion.model_copy(update={"value": value, "assertions": inner})


def _with(default: TestShape, test: TestShape) -> TestShape:
    options = {key: getattr(test.options, key) for key in test.options.model_fields_set}
    return test.model_copy(
        update={
            "vars": {**default.vars, **test.vars},
            "assertions": (*default.assertions, *test.assertions),
            "threshold": default.threshold if test.threshold is None else test.threshold,
            "options": default.options.model_copy(update=options),
            "metadata": {**default.metadata, **test.metadata},
        }
    )


def _choices(test: TestShape, folder: Path) -> Iterator[dict[str, Any]]:
    """Every combination of the variables' values, where some are lists of them."""
    spread = {
        name: [_value(one, folder) for one in value]
        if isinstance(value, list) and not test.options.disable_var_expansion
        else [_value(value, folder)]
        for name, value in test.vars.items()
    }
    for values in product(*spread.values()):
        yield dict(zip(spread, values, strict=True))


def _value(value: Any, folder: Path) -> Any:
    if not (isinstance(value, str) and value.startswith(FILE)):
        return value
    path = folder / value.removeprefix(FILE)
    if path.suffix in _PROGRAMS:
        raise UsageError(f"{value}: values that a program makes are not supported; write them out")
    return _data(path) if path.suffix in {".yaml", ".yml", ".json"} else _text(path)


def _tests(given: str | TestShape, folder: Path) -> Iterator[TestShape]:
    if isinstance(given, TestShape):
        yield given
        return
    path = folder / given.removeprefix(FILE)
    if path.suffix not in {".yaml", ".yml", ".json", ".jsonl"}:
        raise UsageError(f"{path}: tests are read from .yaml, .json and .jsonl files")
    if path.suffix == ".jsonl":
        records = [json.loads(line) for line in _text(path).splitlines() if line.strip()]
    else:
        data = _data(path)
        records = data if isinstance(data, list) else [data]
    for number, one in enumerate(records, 1):
        yield _shaped(TestShape, one, f"{path}: test {number}")


def _prompts(name: str, folder: Path) -> Iterator[str]:
    if not name.startswith(FILE):
        yield name
        return
    path = folder / name.removeprefix(FILE)
    if path.suffix in _PROGRAMS:
        raise UsageError(f"{path}: prompts that a program makes are not supported")
    if path.suffix in {".yaml", ".yml"}:
        yield json.dumps(_data(path), ensure_ascii=False)
    elif path.suffix == ".txt":
        parts = re.split(r"^---\s*$", _text(path), flags=re.MULTILINE)
        yield from filter(None, map(str.strip, parts))
    else:
        yield _text(path)


def _messages(text: str) -> tuple[Message, ...]:
    """A prompt as messages: a JSON list of them, or the text as one of the user's."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    roles = {"system", "user", "assistant"}
    if not (
        isinstance(told, list)
        and told
        and all(isinstance(one, dict) and one.get("role") in roles for one in told)
    ):
        return (Message("user", text),)
    return tuple(Message(one["role"], str(one.get("content", ""))) for one in told)


def _shaped(shape: type[Given], data: Any, where: str) -> Given:
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        lines = [
            f"{where}: {'.'.join(map(str, one['loc']))}: {one['msg']}"
            for one in error.errors(include_url=False)
        ]
        raise UsageError("\n".join(lines[:10])) from None


def _data(path: Path) -> Any:
    try:
        return load_yaml(_text(path))
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error


def _text(path: Path) -> str:
    try:
        return read_text(path, "utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error

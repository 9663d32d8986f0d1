"""promptfoo's tests as tasks: the target answers each prompt, and the assertions grade it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from skillopt_ci.environments.division import Division
from skillopt_ci.environments.extras import require
from skillopt_ci.environments.options import read_options
from skillopt_ci.environments.promptfoo.shape import AssertionShape
from skillopt_ci.rollout.environment import Environment, Parts, Split
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers.base import Score
from skillopt_ci.tasks.task import Task


class PromptfooOptions(Division):
    """Options of `environment: {type: promptfoo}`."""

    file: str = Field(default="promptfooconfig.yaml", min_length=1)
    """The promptfoo configuration. Its providers are not used: the target answers."""


class PromptfooEnvironment(Environment):
    """The tests of a promptfoo configuration."""

    def __init__(
        self, options: Mapping[str, object], root: Path, environ: Mapping[str, str]
    ) -> None:
        del environ
        require("jinja2", "promptfoo")
        # Here and not above: only now it is known that Jinja is there.
        from skillopt_ci.environments.promptfoo.reading import read_tests  # noqa: PLC0415

        super().__init__(options, root)
        self._read = read_options(PromptfooOptions, options, "promptfoo")
        self._file = root / self._read.file
        self._tests = {test.id: test for test in read_tests(self._file)}
        tasks = [
            Task(
                id=test.id,
                messages=test.messages,
                references=_answers(test.assertions),
                reference_text=_told(test.assertions),
                task_type=str(test.metadata.get("task_type", "")),
                metadata={
                    "description": test.description,
                    "vars": dict(test.vars),
                    "assert": [one.model_dump(mode="json") for one in test.assertions],
                    "threshold": test.threshold,
                },
                file=self._file,
            )
            for test in self._tests.values()
        ]
        self._splits = self._read.divided(tasks)

    @property
    def code(self) -> Literal["confined"]:
        """Where its code meets answers: an assertion's function has a process of its own."""
        return "confined"

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the tests of a split as tasks."""
        return self._splits[split]

    async def grade(self, task: Task, attempt: Attempt, parts: Parts) -> Score:
        """Grade by the test's assertions: hard when it passes, soft is its score."""
        from skillopt_ci.environments.promptfoo.grading import Grading  # noqa: PLC0415

        test = self._tests[task.id]
        grading = Grading(task, test.vars, self._file.parent, parts.judge, parts.environ)
        found = await grading.all_of(test.assertions, test.threshold, attempt.response)
        return Score(float(found.passed), found.score, found.reason, attempt.response)


def _answers(assertions: tuple[AssertionShape, ...]) -> tuple[str, ...]:
    return tuple(
        str(one.value)
        for one in assertions
        if one.type == "equals" and not isinstance(one.value, dict | list)
    )


def _told(assertions: tuple[AssertionShape, ...]) -> str:
    """What is demanded of an answer, for the analysts of training tasks."""
    demands = [
        one.model_dump(mode="json", exclude_defaults=True, by_alias=True) for one in assertions
    ]
    return yaml.safe_dump(demands, sort_keys=False, allow_unicode=True)

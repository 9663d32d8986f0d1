import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from task_files import make_task, write
from virtual_time import out_of_time_whenever

from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers.base import Judge, Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Task

__all__ = ["make_task", "write"]

SPECS: TypeAdapter[ScorerSpec] = TypeAdapter(ScorerSpec)
Grade = Callable[..., Score]


@pytest.fixture
def make_spec() -> Callable[..., ScorerSpec]:
    return lambda kind, **keys: SPECS.validate_python({"type": kind, **keys})


@pytest.fixture
def grade(tmp_path: Path, make_task: Callable[..., Task]) -> Iterator[Grade]:
    """Grades `response` with a scorer that is built from its configuration.

    Functions are kept until the test ends, as a run keeps them: to start one takes longest.
    """
    kept = dict[int, Functions]()

    def run(
        kind: str,
        response: str,
        *references: str,
        task: Task | None = None,
        judge: Judge | None = None,
        environ: Mapping[str, str] = os.environ,
        hangs_after: Path | None = None,
        **keys: object,
    ) -> Score:
        scorers = TaskScorers(
            SPECS.validate_python({"type": kind, **keys}),
            judge=judge,
            root=tmp_path,
            functions=kept.setdefault(id(environ), Functions(environ)),
        )
        graded = scorers.grade(task or make_task(*references), Attempt((), response))
        return asyncio.run(out_of_time_whenever(graded, hangs_after) if hangs_after else graded)

    yield run
    for functions in kept.values():
        functions.close()

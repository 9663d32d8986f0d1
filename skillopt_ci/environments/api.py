"""Everything that an environment of your own imports: see docs/environments.md."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from skillopt_ci.agents.manual import ScriptedSolver
from skillopt_ci.aio import Slots
from skillopt_ci.config.base import Section
from skillopt_ci.config.loading import Loaded, explain
from skillopt_ci.config.rollout import ScriptedConfig
from skillopt_ci.errors import EnvironmentFailure, TaskFileError, UsageError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatClient
from skillopt_ci.rollout.attempt import AttemptRunner, Runner
from skillopt_ci.rollout.computer_pool import open_computer_pool
from skillopt_ci.rollout.environment import Environment, Parts, Reflecting, Split
from skillopt_ci.rollout.graders import TaskScorers, check_scorers
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import AgentError, Attempt, AttemptRequest, Rollout
from skillopt_ci.scorers.base import GraderBroke, GraderError, Score, blamed
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.files import TaskRecord
from skillopt_ci.tasks.loading import divide, read_entries
from skillopt_ci.tasks.records import to_task
from skillopt_ci.tasks.task import Task, content_key, task_sha256
from skillopt_ci.util import user_errors

Item = TypeVar("Item")


class Division(Section):
    split: str = Field(default="2:1:7", pattern=r"^[1-9]\d*:[1-9]\d*:[1-9]\d*$")
    """Shares train:selection:test as positive whole numbers, such as 2:1:7."""
    seed: int = 42
    """Seed of the shuffle."""
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""

    def divided(self, items: Sequence[Item]) -> dict[Split, tuple[Item, ...]]:
        """Divide ``items``, always the same way; raises UsageError if a split stays empty."""
        try:
            parts = divide(items, self.split, self.seed)
        except ValueError as error:
            raise UsageError(
                f"environment: {error}",
                hint="Add tasks, or choose a more even `environment.split`.",
            ) from error
        return {name: part[: self.limit or None] for name, part in parts.items()}


__all__ = [
    "AgentError",
    "Attempt",
    "Environment",
    "EnvironmentFailure",
    "GraderError",
    "Message",
    "Parts",
    "Reflecting",
    "Score",
    "Solver",
    "Split",
    "Task",
    "Workplace",
    "check_scorers",
    "divided",
    "read_entries",
    "task_of",
]


def task_of(entry: Mapping[str, object], folder: Path) -> Task:
    """Make a task of a mapping with the keys of a task file; its paths start at ``folder``."""
    made = to_task(TaskRecord(dict(entry), folder / "(an environment)", 1))
    if isinstance(made, Task):
        return made
    raise TaskFileError("; ".join(problem.message for problem in made))


def divided(tasks: Sequence[Task], split: str, seed: int = 42) -> Mapping[Split, tuple[Task, ...]]:
    """Divide ``tasks`` into train, selection and test by shares, always the same way."""
    return Division(split=split, seed=seed).divided(tasks)


def split_tasks(environment: Environment, split: Split) -> tuple[Task, ...]:
    """The tasks of a split; UsageError if it raises, or they are none or could not be recorded."""
    call = f"environment: {type(environment).__name__}.tasks({split!r})"
    with user_errors(f"{call} raised"):
        returned = tuple(environment.tasks(split))
    if faults := list(_faults(returned)):
        raise UsageError(f"{call}: {'; '.join(faults[:10])}")
    return returned


async def grade(environment: Environment, task: Task, attempt: Attempt, parts: Parts) -> Score:
    """The environment's grade of an attempt, which may be to blame that there is none."""
    empty = replace(
        attempt, messages=(), response="", n_turns=0, trace="", artifacts=b"", computer=None
    )
    return await blamed(
        lambda: _grade(environment, task, attempt, parts),
        lambda: _grade(environment, task, empty, parts),
        attempt.response,
    )


async def _grade(environment: Environment, task: Task, attempt: Attempt, parts: Parts) -> Score:
    call = f"{type(environment).__name__}.grade"
    with user_errors(f"{call} raised", GraderBroke):
        grading = environment.grade(task, attempt, parts)
        if not hasattr(grading, "__await__"):
            raise UsageError(f"environment: {call} must be an `async def`")
        score = await grading
    if not isinstance(score, Score):
        raise GraderBroke(f"{call} returned {score!r:.60}, expected a Score")
    hard, soft = -1.0, -1.0
    with suppress(TypeError, ValueError):
        hard, soft = float(score.hard), float(score.soft)
    if not (0 <= hard <= 1 and 0 <= soft <= 1):
        raise GraderBroke(
            f"{call} gave {score.hard!r:.20} (hard) and {score.soft!r:.20} (soft), "
            "expected scores from 0 to 1"
        )
    return Score(hard, soft, str(score.reason), str(score.answer))


async def reflect(
    environment: Environment, asked: Reflecting, client: ChatClient
) -> Sequence[Mapping[str, object]]:
    """The patches that the environment proposes; UsageError if it raises or they are none."""
    call = f"environment: {type(environment).__name__}.reflect"
    with user_errors(f"{call} raised"):
        returned = tuple(await environment.reflect(asked, client))
        json.dumps(returned)
    if strange := [one for one in returned if not isinstance(one, Mapping)]:
        raise UsageError(f"{call} returned {strange[0]!r:.60}, expected patches (mappings)")
    return returned


def _faults(tasks: tuple[object, ...]) -> Iterator[str]:
    for number, task in enumerate(tasks, 1):
        if not isinstance(task, Task):
            yield f"number {number} is a {type(task).__name__}, expected a Task"
        elif not isinstance(task.id, str) or not task.id.isprintable() or not task.id.strip():
            yield f"task {task.id!r} has no printable id"
        else:
            try:
                content_key(task)
                task_sha256(task)
            except (AttributeError, TypeError, ValueError, RecursionError) as error:
                yield (
                    f"task {task.id!r} cannot be written as JSON, or a part of it is of the wrong "
                    f"type: {error}"
                )
                continue
            if not task.messages or task.messages[-1].role != "user":
                yield f"task {task.id!r} does not end with a message of the user"
            listed = isinstance(task.references, tuple | list)  # a text would be its letters
            if not listed or not all(isinstance(one, str) for one in task.references):
                yield f"task {task.id!r}: references must be a tuple of texts"


Options = TypeVar("Options", bound=Section)


def read_options(shape: type[Options], given: Mapping[str, object]) -> Options:
    """The options of an environment; UsageError has a line for each wrong key."""
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        faults = explain(error, shape, lambda _: "")
        lines = [f"{'.'.join(map(str, ('environment', *path)))}: {text}" for path, text in faults]
        raise UsageError("\n".join(lines)) from None


def try_solutions(
    loaded: Loaded,
    tasks: Sequence[Task],
    solutions: Mapping[str, Sequence[str]],
    environ: Mapping[str, str],
) -> dict[str, Rollout]:
    """What comes of each task, by its id, if the commands that ``solutions`` has for it are run.

    A task without a solution is graded as it is given out. Raises
    :class:`~skillopt_ci.errors.ComputerUnavailable`, or UsageError where no computer is configured.
    """
    settings = loaded.config.rollout
    if (pool := open_computer_pool(loaded.config, loaded.root, environ)) is None:
        raise UsageError("Solutions are commands, and no computer is configured for them")
    pool.computers.check()
    scorers = TaskScorers(
        loaded.config.scorer,
        judge=None,
        root=loaded.root,
        functions=Functions(environ),
        pool=pool,
        limits=settings.limits,
    )
    solver = ScriptedSolver(ScriptedConfig(type="scripted", answer="done"))
    scripted = [
        replace(
            task, metadata={**task.metadata, "script": {"commands": [*solutions.get(task.id, ())]}}
        )
        for task in tasks
    ]
    runner = Runner(AttemptRunner(solver, scorers, settings, pool), Slots(4))
    made = asyncio.run(runner.carry_out(AttemptRequest(one, "", "trial") for one in scripted))
    return {rollout.task_id: rollout for rollout in made}


def require(package: str, extra: str, key: str = "environment") -> None:
    """Raise UsageError, with the extra to install, unless ``package`` can be imported."""
    # does not import it, which may take seconds
    if find_spec(package.partition(".")[0]) is None or find_spec(package) is None:
        raise UsageError(
            f"{key}: {extra} needs the Python package {package}, which is not installed.",
            hint=f"pip install 'skillopt-ci[{extra}]' (or pipx runpip skillopt-ci install …)",
        )

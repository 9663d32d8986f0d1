"""Calling a user's environment so that its mistakes are told as such."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.model.types import ChatClient
from skillopt_ci.rollout.environment import Environment, Parts, Reflecting, Split
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers.base import GraderBroke, Score, blamed
from skillopt_ci.tasks.task import Task, task_sha256
from skillopt_ci.util import last_line


def split_tasks(environment: Environment, split: Split) -> tuple[Task, ...]:
    """The tasks of a split.

    Raises UsageError where the environment raises or returns what is no task, and for tasks that
    could not be recorded.
    """
    call = f"environment: {type(environment).__name__}.tasks({split!r})"
    try:
        returned = tuple(environment.tasks(split))
    except SkilloptError:
        raise
    except Exception as error:
        raise UsageError(f"{call} raised {last_line(error)}") from error
    if faults := list(_faults(returned)):
        raise UsageError(f"{call}: {'; '.join(faults[:10])}")
    return returned


async def grade(environment: Environment, task: Task, attempt: Attempt, parts: Parts) -> Score:
    """The environment's grade of an attempt.

    Where it raises anything unforeseen, or returns what is no score, an empty attempt is graded:
    raises GraderError if that ends so too, otherwise the attempt scores 0.
    """
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
    try:
        score = await environment.grade(task, attempt, parts)
    except SkilloptError:
        raise
    except Exception as error:
        raise GraderBroke(f"{call} raised {last_line(error)}") from error
    if not isinstance(score, Score):
        raise GraderBroke(f"{call} returned {score!r:.60}, expected a Score")
    if not (0 <= score.hard <= 1 and 0 <= score.soft <= 1):
        raise GraderBroke(
            f"{call} gave {score.hard!r:.20} (hard) and {score.soft!r:.20} (soft), "
            "expected scores from 0 to 1"
        )
    return Score(float(score.hard), float(score.soft), str(score.reason), str(score.answer))


async def reflect(
    environment: Environment, asked: Reflecting, client: ChatClient
) -> Sequence[Mapping[str, object]]:
    """The patches that the environment proposes.

    Raises UsageError where it raises anything unforeseen, or returns what is no list of patches.
    """
    call = f"environment: {type(environment).__name__}.reflect"
    try:
        returned = tuple(await environment.reflect(asked, client))
        json.dumps(returned)
    except SkilloptError:
        raise
    except Exception as error:
        raise UsageError(f"{call} raised {last_line(error)}") from error
    if strange := [one for one in returned if not isinstance(one, Mapping)]:
        raise UsageError(f"{call} returned {strange[0]!r:.60}, expected patches (mappings)")
    return returned


def _faults(tasks: tuple[object, ...]) -> Iterator[str]:
    for number, task in enumerate(tasks, 1):
        if not isinstance(task, Task):
            yield f"number {number} is a {type(task).__name__}, expected a Task"
        elif not task.messages or task.messages[-1].role != "user":
            yield f"task {task.id!r} does not end with a message of the user"
        elif fault := _unwritable(task):
            yield f"task {task.id!r} {fault}"


def _unwritable(task: Task) -> str:
    if not isinstance(task.id, str) or not task.id.isprintable() or not task.id.strip():
        return "has no printable id"
    try:
        task_sha256(task)
    except (TypeError, ValueError) as error:
        return f"cannot be written as JSON: {error}"
    return ""

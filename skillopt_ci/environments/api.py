"""Everything that an environment of your own imports.

::

    class Riddles(Environment):
        def tasks(self, split):
            return divided(read_entries(self.root / "riddles.jsonl"), "2:1:1")[split]

        async def grade(self, task, attempt, parts):
            right = task.references[0] in attempt.response
            return Score(hard=right, soft=right, reason="", answer=attempt.response)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_ci.environments.division import Division
from skillopt_ci.errors import EnvironmentFailure, TaskFileError
from skillopt_ci.messages import Message
from skillopt_ci.rollout.environment import Environment, Parts, Reflecting, Split
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import AgentError, Attempt
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.files import Record, refuse
from skillopt_ci.tasks.loading import load_tasks
from skillopt_ci.tasks.records import to_task
from skillopt_ci.tasks.task import Task

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
    "divided",
    "read_entries",
    "task_of",
]


def task_of(entry: Mapping[str, object], folder: Path) -> Task:
    """Make a task of a mapping with the keys of a task file; its paths start at ``folder``.

    Raises :class:`TaskFileError` that names every key at fault.
    """
    made = to_task(Record(dict(entry), folder / "(an environment)", 1, line_of=lambda _: 1))
    if isinstance(made, Task):
        return made
    raise TaskFileError("; ".join(problem.message for problem in made))


def read_entries(file: Path) -> tuple[Task, ...]:
    """Read the tasks of a task file (JSON Lines, JSON or YAML); raises :class:`TaskFileError`."""
    tasks, problems = load_tasks(file)
    refuse(problems)
    return tasks


def divided(tasks: Sequence[Task], split: str, seed: int = 42) -> Mapping[Split, tuple[Task, ...]]:
    """Divide ``tasks`` into train, selection and test by shares such as ``2:1:7``.

    The same tasks are always divided the same way. Raises UsageError if a split stays empty.
    """
    return Division(split=split, seed=seed).divided(tasks)

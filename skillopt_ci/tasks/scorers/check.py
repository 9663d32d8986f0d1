"""Finding out, before any paid call, that a scorer cannot work."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillopt_ci.config.base import Section
from skillopt_ci.config.scorers import (
    AllScorer,
    AnlsScorer,
    AnyScorer,
    ChoiceScorer,
    CommandScorer,
    ComputerScorer,
    ContainsScorer,
    ExactScorer,
    F1Scorer,
    JsonScorer,
    NormalizedScorer,
    NumberScorer,
    PythonScorer,
    RubricScorer,
    ScorerSpec,
    WeightedScorer,
)
from skillopt_ci.errors import UsageError
from skillopt_ci.tasks.files import Problem, refuse
from skillopt_ci.tasks.scorers.choice import check_choice_references
from skillopt_ci.tasks.scorers.command import check_command
from skillopt_ci.tasks.scorers.grading import needs_references
from skillopt_ci.tasks.scorers.json_answer import check_json_references
from skillopt_ci.tasks.scorers.matching import check_contains_task, check_contains_texts
from skillopt_ci.tasks.scorers.number import check_number_references
from skillopt_ci.tasks.scorers.python_function import load_function
from skillopt_ci.tasks.scorers.rubric import check_rubric_task
from skillopt_ci.tasks.task import Splits, Task

_TASK_CHECKS: Mapping[type[Section], Callable[[Any, Task], str | None]] = MappingProxyType(
    {
        ExactScorer: needs_references,
        NormalizedScorer: needs_references,
        F1Scorer: needs_references,
        AnlsScorer: needs_references,
        ContainsScorer: check_contains_task,
        NumberScorer: check_number_references,
        ChoiceScorer: check_choice_references,
        JsonScorer: check_json_references,
        RubricScorer: check_rubric_task,
    }
)


def check_scorers(
    splits: Splits, default: ScorerSpec | None, *, root: Path, environ: Mapping[str, str]
) -> None:
    """Refuse scorers that cannot grade their tasks, with ``default`` for tasks that bring none.

    Raises :class:`UsageError` when ``default`` cannot work at all, and
    :class:`~skillopt_ci.errors.TaskFileError` that names the tasks for which a scorer cannot.
    """
    if default is not None and (fault := check_spec(default, root=root, environ=environ)):
        raise UsageError(f"scorer: {fault}")
    tasks = (*splits.train, *splits.selection, *splits.test)
    refuse([*_problems(tasks, default, root, environ)])


def check_scorer(
    spec: ScorerSpec, task: Task, *, root: Path, environ: Mapping[str, str]
) -> str | None:
    """Why ``spec`` cannot grade ``task``, in words; None if nothing speaks against it."""
    return check_spec(spec, root=root, environ=environ) or check_task(spec, task)


def check_spec(spec: ScorerSpec, *, root: Path, environ: Mapping[str, str]) -> str | None:
    """Why the scorer cannot work for any task: texts, program or function at fault."""
    match spec:
        case AllScorer() | AnyScorer() | WeightedScorer():
            faults = (check_spec(part, root=root, environ=environ) for part in spec.of)
            fault = next(filter(None, faults), None)
        case ContainsScorer():
            fault = check_contains_texts(spec)
        case CommandScorer():
            fault = check_command(spec, root, environ)
        case PythonScorer():
            fault = _check_function(spec, root)
        case ComputerScorer(folder=str(folder)) if not (root / folder).is_dir():
            fault = f"the folder {folder!r} of the grader's files is not there"
        case _:
            fault = None
    return fault


def check_task(spec: ScorerSpec, task: Task) -> str | None:
    """Why ``task`` lacks what the scorer compares with: references, choices, a rubric."""
    if isinstance(spec, AllScorer | AnyScorer | WeightedScorer):
        return next(filter(None, (check_task(part, task) for part in spec.of)), None)
    check = _TASK_CHECKS.get(type(spec))
    return check(spec, task) if check else None


def _check_function(spec: PythonScorer, root: Path) -> str | None:
    try:
        load_function(spec.entry, root)
    except UsageError as error:
        return error.message
    return None


def _problems(
    tasks: tuple[Task, ...],
    default: ScorerSpec | None,
    root: Path,
    environ: Mapping[str, str],
) -> Iterator[Problem]:
    for task in tasks:
        fault = None
        if task.scorer is not None:
            fault = check_spec(task.scorer, root=root, environ=environ)
        spec = task.scorer or default
        if spec is None:
            fault = "the task has no scorer, and the configuration has none for all"
        else:
            fault = fault or check_task(spec, task)
        if fault:
            yield Problem(task.file, task.line, f"task {task.id!r}: {fault}")

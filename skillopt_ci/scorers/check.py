"""Check scorers before any paid call."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from skillopt_ci.config import scorers as specs
from skillopt_ci.confinement import current
from skillopt_ci.errors import UsageError
from skillopt_ci.scorers import code
from skillopt_ci.scorers.text import GRADERS, grade_varies
from skillopt_ci.tasks.files import TaskProblem, refuse
from skillopt_ci.tasks.task import Splits, Task


def check_scorers(
    splits: Splits, default: specs.ScorerSpec | None, *, root: Path, environ: Mapping[str, str]
) -> None:
    """Raise UsageError, or TaskFileError naming the tasks, if a scorer cannot grade its tasks."""
    problems = []
    with closing(code.Functions(environ)) as functions:
        if default is not None and (fault := check_spec(default, root, functions)):
            raise UsageError(f"scorer: {fault}")
        for task in splits.all:
            if task.scorer is not None:
                fault = check_spec(task.scorer, root, functions) or check_task(task.scorer, task)
            elif default is not None:
                fault = check_task(default, task)
            else:
                fault = "the task has no scorer, and the configuration has none for all"
            if fault:
                problems.append(TaskProblem(task.file, task.line, f"task {task.id!r}: {fault}"))
    refuse(problems)


def check_spec(spec: specs.ScorerSpec, root: Path, functions: code.Functions) -> str | None:
    """The fault of ``spec``, if any. Raises UsageError for a function that cannot be loaded."""
    parts = [*specs.parts_of(spec)]
    unkept = [one.type for one in parts if grade_varies(one)]
    if unkept and any(one.type == "computer" and one.same_computer for one in parts):
        return (
            f"`same_computer` cannot stand beside `{unkept[0]}`, whose grades are not kept: each "
            "evaluation would make the attempts again"
        )
    for part in parts:
        match part:
            case specs.ContainsScorer() if "" in (*part.contains, *part.not_contains):
                return "every answer contains an empty text"
            case specs.CommandScorer() if fault := code.check_command(
                part, root, functions.environ
            ):
                return fault
            case specs.PythonScorer():
                functions.worker(part.entry, root)
            case specs.ComputerScorer(folder=str(folder)) if not (root / folder).is_dir():
                return f"the grader's folder is not there: {root / folder}"
            case specs.ComputerScorer(folder=str(folder)):
                cell, files = current(), (root / folder).rglob("*")
                if out := next((file for file in files if cell.hides(file, cell.root)), None):
                    return f"the grader's folder {folder!r} may not lead to {out.resolve()}"
    return None


def check_task(spec: specs.ScorerSpec, task: Task) -> str | None:
    checks = {kind: grader.check for kind, grader in GRADERS.items()}
    checks[specs.RubricScorer] = code.check_rubric_task
    faults = (checks[type(one)](one, task) for one in specs.parts_of(spec) if type(one) in checks)
    return next(filter(None, faults), None)

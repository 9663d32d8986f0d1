"""Combines scores, and checks scorers before any paid call."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from skillopt_ci.aio import siblings
from skillopt_ci.config import scorers as specs
from skillopt_ci.confinement import current
from skillopt_ci.errors import UsageError
from skillopt_ci.scorers import code
from skillopt_ci.scorers.base import Score, Scorer, reaches, scored, sentence
from skillopt_ci.scorers.text import GRADERS
from skillopt_ci.tasks.files import TaskProblem, refuse
from skillopt_ci.tasks.task import Splits, Task

NEEDS_COMPUTER = "Set `rollout.computer`, with `type: sandbox` for instance."


def parts_of(spec: specs.ScorerSpec) -> Iterator[specs.ScorerSpec]:
    if isinstance(spec, specs.Combination):
        for part in spec.of:
            yield from parts_of(part)
    else:
        yield spec


async def grade_parts(
    spec: specs.Combination, parts: Sequence[Scorer], task: Task, response: str
) -> Score:
    """Combine the scores of ``parts``; the first grader that fails stops the others."""
    async with siblings() as group:
        running = [group.create_task(part(task, response)) for part in parts]
    return combined(spec, [done.result() for done in running])


def combined(spec: specs.Combination, scores: Sequence[Score]) -> Score:
    answer = scores[0].answer
    match spec:
        case specs.AllScorer():
            blamed = [score for score in scores if not score.hard]
            solved, soft = not blamed, math.fsum(score.soft for score in scores) / len(scores)
        case specs.AnyScorer():
            best = max(scores, key=lambda score: (score.hard, score.soft))
            solved, answer = bool(best.hard), best.answer
            soft, blamed = max(score.soft for score in scores), [best] if solved else []
        case specs.WeightedScorer():
            weighted = zip(spec.weights, scores, strict=True)
            soft = math.fsum(weight * score.soft for weight, score in weighted)
            soft = min(1.0, soft / math.fsum(spec.weights))
            blamed = [score for score in scores if score.soft < 1]
            solved = reaches(soft, spec.hard_at)
    reason = sentence([score.reason for score in blamed or scores])
    return scored(solved, reason, answer, soft=soft)


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
                told = f"task {task.id!r}: {fault}"
                problems.append(TaskProblem(task.file, task.line, told))
    refuse(problems)


def check_spec(spec: specs.ScorerSpec, root: Path, functions: code.Functions) -> str | None:
    """The fault of ``spec``, if any. Raises UsageError for a function that cannot be loaded."""
    for part in parts_of(spec):
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
                return f"the folder {folder!r} of the grader's files is not there"
            case specs.ComputerScorer(folder=str(folder)):
                cell, files = current(), (root / folder).rglob("*")
                if out := next((file for file in files if cell.hides(file, cell.root)), None):
                    return f"the grader's folder {folder!r} may not lead to {out.resolve()}"
    return None


def check_task(spec: specs.ScorerSpec, task: Task) -> str | None:
    for part in parts_of(spec):
        fault = None
        if isinstance(part, specs.RubricScorer):
            fault = code.check_rubric_task(part, task)
        elif type(part) in GRADERS:
            fault = GRADERS[type(part)].check(part, task)
        if fault:
            return fault
    return None

"""From a scorer's configuration to the scorer."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillopt_ci.aio import siblings
from skillopt_ci.config.base import Section
from skillopt_ci.config.scorers import (
    AllScorer,
    AnlsScorer,
    AnswerScorer,
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
    RegexScorer,
    RubricScorer,
    ScorerSpec,
    WeightedScorer,
)
from skillopt_ci.errors import UsageError
from skillopt_ci.scorers.base import (
    AnswerGrader,
    Judge,
    Score,
    Scorer,
    needs_references,
    reaches,
    sentence,
    verdict,
)
from skillopt_ci.scorers.code import CommandGrader, PythonGrader, check_command, load_function
from skillopt_ci.scorers.rubric import RubricGrader, check_rubric_task
from skillopt_ci.scorers.text import (
    check_choice_references,
    check_contains_task,
    check_contains_texts,
    check_json_references,
    check_number_references,
    grade_anls,
    grade_choice,
    grade_contains,
    grade_exact,
    grade_f1,
    grade_json,
    grade_normalized,
    grade_number,
    grade_regex,
)
from skillopt_ci.tasks.files import Problem, refuse
from skillopt_ci.tasks.task import Splits, Task

# Finding out, before any paid call, that a scorer cannot work.

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


# Scorers made of scorers: all, any, weighted.

Combine = Callable[[Sequence[Score]], Score]


@dataclass(frozen=True, slots=True)
class Combined:
    """Asks its parts at the same time; the first grader that fails stops the others."""

    parts: tuple[Scorer, ...]
    combine: Combine

    async def score(self, task: Task, response: str) -> Score:
        """Grade with every part and combine their verdicts."""
        async with siblings() as group:
            running = [group.create_task(part.score(task, response)) for part in self.parts]
        return self.combine([done.result() for done in running])


def all_of(scores: Sequence[Score]) -> Score:
    """Hard when every part is; soft is the mean."""
    failed = [score for score in scores if not score.hard]
    soft = math.fsum(score.soft for score in scores) / len(scores)
    return verdict(not failed, _reasons(failed or scores), scores[0].answer, soft=soft)


def any_of(scores: Sequence[Score]) -> Score:
    """Hard when some part is; soft is the maximum."""
    best = max(scores, key=lambda score: (score.hard, score.soft))
    soft = max(score.soft for score in scores)
    reasons = [best] if best.hard else scores
    return verdict(bool(best.hard), _reasons(reasons), best.answer, soft=soft)


def weighted(spec: WeightedScorer, scores: Sequence[Score]) -> Score:
    """Soft is the weighted mean of the parts' soft scores."""
    shares = [weight * score.soft for weight, score in zip(spec.weights, scores, strict=True)]
    soft = min(1.0, math.fsum(shares) / math.fsum(spec.weights))
    solved = reaches(soft, spec.hard_at)
    lacking = [score for score in scores if score.soft < 1]
    return verdict(solved, _reasons(lacking or scores), scores[0].answer, soft=soft)


def _reasons(scores: Sequence[Score]) -> str:
    return sentence([score.reason for score in scores])


NEEDS_COMPUTER = "Set `rollout.computer`, with `type: sandbox` for instance."

_GRADES: Mapping[type[AnswerScorer], Callable[[Any, Task, str], Score]] = MappingProxyType(
    {
        ExactScorer: grade_exact,
        NormalizedScorer: grade_normalized,
        F1Scorer: grade_f1,
        ContainsScorer: grade_contains,
        RegexScorer: grade_regex,
        NumberScorer: grade_number,
        ChoiceScorer: grade_choice,
        AnlsScorer: grade_anls,
        JsonScorer: grade_json,
    }
)


def build_scorer(
    spec: ScorerSpec,
    *,
    judge: Judge | None,
    root: Path,
    environ: Mapping[str, str],
    on_computer: Callable[[ComputerScorer], Scorer] | None = None,
) -> Scorer:
    """The scorer that ``spec`` describes, for repositories at ``root``.

    Commands run in ``root`` and see of ``environ`` what they are allowed to. ``on_computer`` gives
    the scorer of what one attempt left behind. Raises :class:`UsageError` for a rubric without a
    judge, for a Python function that cannot be imported, and without a computer that is needed.
    """
    match spec:
        case AllScorer() | AnyScorer() | WeightedScorer():
            build = partial(
                build_scorer, judge=judge, root=root, environ=environ, on_computer=on_computer
            )
            return Combined(tuple(build(part) for part in spec.of), _combine(spec))
        case CommandScorer():
            return CommandGrader(spec, root, environ)
        case PythonScorer():
            load_function(spec.entry, root)  # what is wrong with it is told at once
            return PythonGrader(spec, root, environ)
        case RubricScorer():
            if judge is None:
                raise UsageError("a rubric scorer needs a judge model", hint="Set `model.judge`.")
            return RubricGrader(spec, judge)
        case ComputerScorer():
            if on_computer is None:
                raise UsageError("a computer scorer needs a computer", hint=NEEDS_COMPUTER)
            return on_computer(spec)
        case _:
            return AnswerGrader(spec, _GRADES[type(spec)], check_task)


def _combine(spec: AllScorer | AnyScorer | WeightedScorer) -> Combine:
    match spec:
        case AllScorer():
            return all_of
        case AnyScorer():
            return any_of
        case WeightedScorer():
            return partial(weighted, spec)

"""From a scorer's configuration to the scorer, and why one cannot work, before any paid call."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skillopt_ci.aio import siblings
from skillopt_ci.config.scorers import (
    AllScorer,
    AnyScorer,
    CommandScorer,
    ComputerScorer,
    ContainsScorer,
    PythonScorer,
    RubricScorer,
    ScorerSpec,
    WeightedScorer,
)
from skillopt_ci.errors import UsageError
from skillopt_ci.scorers.base import Judge, Score, Scorer, reaches, sentence, verdict
from skillopt_ci.scorers.code import (
    CommandGrader,
    Functions,
    PythonGrader,
    check_command,
    load_function,
)
from skillopt_ci.scorers.rubric import RubricGrader, check_rubric_task
from skillopt_ci.scorers.text import GRADERS, AnswerGrader, check_contains_texts
from skillopt_ci.tasks.files import Problem, refuse
from skillopt_ci.tasks.task import Splits, Task

NEEDS_COMPUTER = "Set `rollout.computer`, with `type: sandbox` for instance."


def build_scorer(
    spec: ScorerSpec,
    *,
    judge: Judge | None,
    root: Path,
    environ: Mapping[str, str],
    functions: Functions,
    on_computer: Callable[[ComputerScorer], Scorer] | None = None,
) -> Scorer:
    """The scorer that ``spec`` describes, for repositories at ``root``.

    Commands run in ``root`` and see of ``environ`` what they are allowed to; Python functions are
    among ``functions``. ``on_computer`` gives the scorer of what one attempt left behind. Raises
    :class:`UsageError` for a rubric without a judge, for a Python function that cannot be imported,
    and without a computer that is needed.
    """
    match spec:
        case AllScorer() | AnyScorer() | WeightedScorer():
            build = partial(
                build_scorer,
                judge=judge,
                root=root,
                environ=environ,
                functions=functions,
                on_computer=on_computer,
            )
            return Combined(spec, tuple(build(part) for part in spec.of))
        case CommandScorer():
            return CommandGrader(spec, root, environ)
        case PythonScorer():
            load_function(spec.entry, root)  # report what is wrong with it at once
            return PythonGrader(spec, root, functions)
        case RubricScorer():
            if judge is None:
                raise UsageError("a rubric scorer needs a judge model", hint="Set `model.judge`.")
            return RubricGrader(spec, judge)
        case ComputerScorer():
            if on_computer is None:
                raise UsageError("a computer scorer needs a computer", hint=NEEDS_COMPUTER)
            return on_computer(spec)
        case _:
            return AnswerGrader(spec)


@dataclass(frozen=True, slots=True)
class Combined:
    """Asks its parts at the same time; the first grader that fails stops the others."""

    spec: AllScorer | AnyScorer | WeightedScorer
    parts: tuple[Scorer, ...]

    async def score(self, task: Task, response: str) -> Score:
        """Grade with every part and combine their scores."""
        async with siblings() as group:
            running = [group.create_task(part.score(task, response)) for part in self.parts]
        return combined(self.spec, [done.result() for done in running])


def combined(spec: AllScorer | AnyScorer | WeightedScorer, scores: Sequence[Score]) -> Score:
    """One score of the parts' scores."""
    answer = scores[0].answer
    match spec:
        case AllScorer():
            blamed = [score for score in scores if not score.hard]
            solved = not blamed
            soft = math.fsum(score.soft for score in scores) / len(scores)
        case AnyScorer():
            best = max(scores, key=lambda score: (score.hard, score.soft))
            solved, answer = bool(best.hard), best.answer
            soft, blamed = max(score.soft for score in scores), [best] if solved else []
        case WeightedScorer():
            weighted = zip(spec.weights, scores, strict=True)
            soft = math.fsum(weight * score.soft for weight, score in weighted)
            soft = min(1.0, soft / math.fsum(spec.weights))
            blamed = [score for score in scores if score.soft < 1]
            solved = reaches(soft, spec.hard_at)
    reason = sentence([score.reason for score in blamed or scores])
    return verdict(solved, reason, answer, soft=soft)


def check_scorers(
    splits: Splits, default: ScorerSpec | None, *, root: Path, environ: Mapping[str, str]
) -> None:
    """Refuse scorers that cannot grade their tasks, with ``default`` for tasks that bring none.

    Raises :class:`UsageError` when ``default`` cannot work at all, and
    :class:`~skillopt_ci.errors.TaskFileError` that names the tasks for which a scorer cannot.
    """
    if default is not None and (fault := check_spec(default, root=root, environ=environ)):
        raise UsageError(f"scorer: {fault}")

    def problems() -> Iterator[Problem]:
        for task in (*splits.train, *splits.selection, *splits.test):
            if task.scorer is not None:
                fault = check_scorer(task.scorer, task, root=root, environ=environ)
            elif default is not None:
                fault = check_task(default, task)
            else:
                fault = "the task has no scorer, and the configuration has none for all"
            if fault:
                yield Problem(task.file, task.line, f"task {task.id!r}: {fault}")

    refuse([*problems()])


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
            return next(filter(None, faults), None)
        case ContainsScorer():
            return check_contains_texts(spec)
        case CommandScorer():
            return check_command(spec, root, environ)
        case PythonScorer():
            try:
                load_function(spec.entry, root)
            except UsageError as error:
                return error.message
        case ComputerScorer(folder=str(folder)) if not (root / folder).is_dir():
            return f"the folder {folder!r} of the grader's files is not there"
    return None


def check_task(spec: ScorerSpec, task: Task) -> str | None:
    """Why ``task`` lacks what the scorer compares with: references, choices, a rubric."""
    match spec:
        case AllScorer() | AnyScorer() | WeightedScorer():
            return next(filter(None, (check_task(part, task) for part in spec.of)), None)
        case RubricScorer():
            return check_rubric_task(spec, task)
    if type(spec) not in GRADERS:
        return None
    return GRADERS[type(spec)].check(spec, task)

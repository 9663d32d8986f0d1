"""From a scorer's configuration to the scorer."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
from skillopt_ci.tasks.scorers.check import check_task
from skillopt_ci.tasks.scorers.choice import grade_choice
from skillopt_ci.tasks.scorers.combined import Combine, Combined, all_of, any_of, weighted
from skillopt_ci.tasks.scorers.command import CommandGrader
from skillopt_ci.tasks.scorers.grading import AnswerGrader
from skillopt_ci.tasks.scorers.json_answer import grade_json
from skillopt_ci.tasks.scorers.matching import grade_contains, grade_regex
from skillopt_ci.tasks.scorers.number import grade_number
from skillopt_ci.tasks.scorers.python_function import PythonGrader, load_function
from skillopt_ci.tasks.scorers.rubric import RubricGrader
from skillopt_ci.tasks.scorers.score import Judge, Score, Scorer
from skillopt_ci.tasks.scorers.text import grade_anls, grade_exact, grade_f1, grade_normalized
from skillopt_ci.tasks.task import Task

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

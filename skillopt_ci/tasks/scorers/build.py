"""From a scorer's configuration to the scorer."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillopt_ci.errors import UsageError
from skillopt_ci.settings.scorer import (
    AllScorer,
    AnlsScorer,
    AnswerScorer,
    AnyScorer,
    ChoiceScorer,
    CommandScorer,
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
    spec: ScorerSpec, *, judge: Judge | None, root: Path, environ: Mapping[str, str]
) -> Scorer:
    """The scorer that ``spec`` describes, for repositories at ``root``.

    Commands run in ``root`` and see of ``environ`` what they are allowed to. Raises
    :class:`UsageError` for a rubric without a judge and for a Python function that cannot be
    imported.
    """
    match spec:
        case AllScorer() | AnyScorer() | WeightedScorer():
            build = partial(build_scorer, judge=judge, root=root, environ=environ)
            return Combined(tuple(build(part) for part in spec.of), _combine(spec))
        case CommandScorer():
            return CommandGrader(spec, root, environ)
        case PythonScorer():
            return PythonGrader(spec, load_function(spec.entry, root))
        case RubricScorer():
            if judge is None:
                raise UsageError("a rubric scorer needs a judge model", hint="Set `model.judge`.")
            return RubricGrader(spec, judge)
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

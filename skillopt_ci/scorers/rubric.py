"""The scorer that asks a model to grade against a rubric."""

import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files

from skillopt_ci.config.scorers import RubricScorer
from skillopt_ci.errors import BudgetExhausted, SkilloptError, UsageError
from skillopt_ci.messages import fenced
from skillopt_ci.scorers.base import (
    FallibleScorer,
    GraderBroke,
    GraderError,
    Judge,
    Score,
    Scorer,
    one_line,
    quote,
    reaches,
    verdict,
)
from skillopt_ci.tasks.task import Task

_PLACEHOLDER = re.compile(r"\{(task|references|rubric|answer)\}")


def rubric_scorer(spec: RubricScorer, judge: Judge) -> Scorer:
    return FallibleScorer(spec, partial(_ask_judge, spec, judge))


async def _ask_judge(
    spec: RubricScorer, judge: Judge, task: Task, _response: str, answer: str
) -> Score:
    """The judge's score of ``answer``; a reply that is none costs one more question."""
    if fault := check_rubric_task(spec, task):
        raise GraderError(f"task {task.id!r} cannot be graded: {fault}")
    prompt = rubric_prompt(spec, task, answer)
    reply = await _asked(judge, prompt)
    try:
        soft, reason = parse_verdict(reply)
    except ValueError as error:
        again = (
            f"{prompt}\n## Your previous reply\n{fenced(reply, least=4)}\n\n"
            f"It could not be used: {error}. Reply with the JSON object alone.\n"
        )
        try:
            soft, reason = parse_verdict(await _asked(judge, again))
        except ValueError as still:
            raise GraderBroke(f"the judge gave no verdict twice: {still}") from still
    return verdict(reaches(soft, spec.hard_at), reason, answer, soft=soft)


async def _asked(judge: Judge, prompt: str) -> str:
    try:
        return await judge(prompt)
    except (UsageError, BudgetExhausted):
        raise
    except SkilloptError as error:
        # The answer exists, only its grade does not: not the target's failure.
        raise GraderError(f"the judge could not be asked: {error.message}") from error


def rubric_prompt(spec: RubricScorer, task: Task, answer: str) -> str:
    """The judge's prompt; everything that comes from a task or a model is fenced as data."""
    references = "\n".join(f"- {reference}" for reference in task.references)
    conversation = "\n\n".join(f"[{m.role}] {m.content}" for m in task.messages)
    attached = "".join(f"\n\n[file {file.name}]\n{file.content}" for file in task.files)
    parts = {
        "task": fenced(conversation + attached, least=4),
        "references": fenced(references, least=4) if references and spec.rubric else "(none)",
        "rubric": fenced(spec.rubric or references, least=4),
        "answer": fenced(answer, least=4),
    }
    template = files(__package__).joinpath("rubric.md").read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda found: parts[found[1]], template)


def parse_verdict(reply: str) -> tuple[float, str]:
    """Score and reason of a judge's reply; raises :class:`ValueError` when it holds none."""
    import json_repair  # noqa: PLC0415 - only this scorer pays for it

    parsed = json_repair.loads(reply)
    candidates = parsed if isinstance(parsed, list) else [parsed]
    verdicts = [item for item in candidates if isinstance(item, Mapping) and "score" in item]
    if not verdicts:
        raise ValueError(f'{quote(reply)} holds no JSON object with a "score"')
    score = verdicts[-1]["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise ValueError(f"the score {quote(repr(score))} is not a number from 0 to 1")
    reason = one_line(str(verdicts[-1].get("reason") or ""))
    return float(score), reason or f"the judge gave {score:g}"


def check_rubric_task(spec: RubricScorer, task: Task) -> str | None:
    """Why there is nothing to grade ``task`` against; None if there is."""
    if spec.rubric.strip() or task.references:
        return None
    return "neither the scorer's rubric nor the task's references say what a good answer does"

"""Scorers that search the answer: texts that must or must not stand in it, regular expressions."""

import re

from skillopt_ci.config.scorers import ContainsScorer, RegexScorer
from skillopt_ci.tasks.scorers.grading import verdict
from skillopt_ci.tasks.scorers.score import Score
from skillopt_ci.tasks.scorers.wording import quote, sentence
from skillopt_ci.tasks.task import Task


def grade_contains(spec: ContainsScorer, task: Task, answer: str) -> Score:
    """Hard when all conditions hold; soft is the share that does.

    An empty answer holds none: silence is not what keeps a forbidden text away.
    """
    if not answer.strip():
        return verdict(False, "the answer is empty", answer)
    wanted = {text: _holds(spec, answer, text) for text in _wanted(spec, task)}
    unwanted = {text: _holds(spec, answer, text) for text in spec.not_contains}
    required = [any(wanted.values())] if wanted and spec.match == "any" else [*wanted.values()]
    conditions = [*required, *(not there for there in unwanted.values())]
    missing = [] if all(required) else [text for text, there in wanted.items() if not there]
    forbidden = [text for text, there in unwanted.items() if there]
    soft = sum(conditions) / len(conditions)
    return verdict(all(conditions), _reason(spec, missing, forbidden), answer, soft=soft)


def check_contains_texts(spec: ContainsScorer) -> str | None:
    """Why the scorer's texts cannot be searched for; None if they can."""
    if "" in (*spec.contains, *spec.not_contains):
        return "an empty text stands in every answer"
    return None


def check_contains_task(spec: ContainsScorer, task: Task) -> str | None:
    """Why ``task`` leaves nothing to search for; None if it does."""
    if not _wanted(spec, task) and not spec.not_contains:
        return "neither the scorer nor the task's references say what the answer must contain"
    if not spec.contains and "" in task.references:
        return "an empty reference stands in every answer"
    return None


def grade_regex(spec: RegexScorer, _task: Task, answer: str) -> Score:
    """Hard when the pattern is found, or with ``negate`` when a real answer is free of it."""
    found = _compiled(spec).search(answer)
    if not spec.negate:
        reason = f"matches {quote(found[0])}" if found else f"nothing matches {quote(spec.pattern)}"
        return verdict(found is not None, reason, answer)
    if not answer.strip():
        return verdict(False, "the answer is empty", answer)
    reason = f"{quote(found[0])} must not occur" if found else "nothing forbidden occurs"
    return verdict(found is None, reason, answer)


def _wanted(spec: ContainsScorer, task: Task) -> tuple[str, ...]:
    return spec.contains or task.references


def _holds(spec: ContainsScorer, answer: str, text: str) -> bool:
    return text.casefold() in answer.casefold() if spec.ignore_case else text in answer


def _reason(spec: ContainsScorer, missing: list[str], forbidden: list[str]) -> str:
    join = " and " if spec.match == "all" else " or "
    faults = [f"lacks {join.join(map(quote, missing))}"] if missing else []
    if forbidden:
        faults.append(f"contains the forbidden {' and '.join(map(quote, forbidden))}")
    return sentence(faults) if faults else "contains what it must and nothing forbidden"


def _compiled(spec: RegexScorer) -> re.Pattern[str]:
    flags = re.IGNORECASE if spec.ignore_case else re.NOFLAG
    return re.compile(spec.pattern, flags | (re.MULTILINE if spec.multiline else re.NOFLAG))

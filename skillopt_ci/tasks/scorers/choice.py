"""The scorer for multiple choice."""

import re
import string
from collections.abc import Mapping

from skillopt_ci.config.scorers import ChoiceScorer
from skillopt_ci.tasks.scorers.grading import needs_references, verdict
from skillopt_ci.tasks.scorers.score import Score
from skillopt_ci.tasks.scorers.wording import quote
from skillopt_ci.tasks.task import Task

#: A line that declares an answer, whatever emphasis models put around it.
_DECLARED = re.compile(
    r"^[*_#> \t]*(?:the )?(?:final )?answer[*_ \t]*:[*_ \t]*(.+)$", re.IGNORECASE | re.MULTILINE
)


def grade_choice(spec: ChoiceScorer, task: Task, answer: str) -> Score:
    """Solved when the answer's label is that of a reference."""
    choices = choices_of(spec, task)
    chosen = parse_choice(answer, choices)
    expected = [parse_choice(reference, choices) for reference in task.references]
    solved = bool(chosen) and chosen in expected
    wanted = " or ".join(dict.fromkeys(expected))
    got = quote(chosen) if chosen else "an empty answer"
    reason = f"chose {chosen}" if solved else f"expected choice {quote(wanted)}, got {got}"
    return verdict(solved, reason, answer)


def choices_of(spec: ChoiceScorer, task: Task) -> dict[str, str]:
    """Normalised label to text: the scorer's choices, else the task's; a bare list is A, B, C …"""
    given = spec.choices or task.metadata.get("choices") or {}
    if isinstance(given, Mapping):
        return {_label(str(label)): str(text) for label, text in given.items()}
    if isinstance(given, list):
        return dict(zip(string.ascii_uppercase, map(str, given), strict=False))
    return {}


def parse_choice(answer: str, choices: Mapping[str, str]) -> str:
    """The label that ``answer`` names.

    As such, by the choice's text, in the last line that says ``Answer: …``, or as its first word.
    An answer that names none comes back normalised; without known choices any label is valid.
    """
    declared = _DECLARED.findall(answer)
    for said in (answer, *declared[-1:]):
        found = _named(said, choices)
        if found:
            return found
    if not choices and declared:
        return _label(declared[-1])
    return _label(answer)


def _named(said: str, choices: Mapping[str, str]) -> str:
    """The known label that ``said`` is, means, or (unless it declares an answer) begins with."""
    label, text = _label(said), " ".join(said.casefold().split())
    if label in choices:
        return label
    for key, choice in choices.items():
        if text == " ".join(choice.casefold().split()):
            return key
    first = _label(said.split(maxsplit=1)[0]) if said.strip() and not _DECLARED.search(said) else ""
    return first if first in choices else ""


def check_choice_references(spec: ChoiceScorer, task: Task) -> str | None:
    """Why the references are none of the choices; None if they are."""
    choices = choices_of(spec, task)
    for reference in task.references:
        label = parse_choice(reference, choices)
        if not label or (choices and label not in choices):
            return f"the reference {quote(reference)} is none of the choices {', '.join(choices)}"
    return needs_references(spec, task)


def _label(text: str) -> str:
    return text.strip().strip("*$`_ ").lstrip("([").rstrip(".):],;").strip("*$`_ ").upper()

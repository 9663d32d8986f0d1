"""Step buffer: what the steps of this epoch tried, told to the next analysts."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skillopt_ci.messages import fenced
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.patch import FailurePattern, SkillCandidate, Suggestion

#: A change that was tried: an edit, a suggestion, or a document by its title alone.
Tried = Edit | Suggestion | SkillCandidate

#: Characters of one value; what is remembered must not crowd out what is to be looked at.
MAX_VALUE_CHARS = 600

_INTRODUCTION = (
    "What earlier steps of this epoch saw and tried. Do not repeat edits that did not help, in "
    "whatever words; give priority to patterns that are still unsolved."
)


@dataclass(frozen=True, slots=True)
class BufferedStep:
    """What one step leaves to the following ones.

    ``n_fail`` of ``n_total`` measured rollouts failed. For a rejected step the gate's scores are
    those of the current skill (``score_before``) and of the candidate (``score_after``).
    """

    step: int
    action: str
    n_total: int
    n_fail: int
    patterns: tuple[FailurePattern, ...] = ()
    score_before: float | None = None
    score_after: float | None = None
    rejected_edits: tuple[Tried, ...] = ()


def render(steps: Sequence[BufferedStep]) -> str:
    """Return the text on ``steps`` for a prompt, the remembered part as data; empty for none."""
    if not steps:
        return ""
    blocks = "\n\n".join(_block(step) for step in steps)
    return f"{_INTRODUCTION}\n\n{fenced(blocks)}"


def _block(step: BufferedStep) -> str:
    heading = f"### Step {step.step} — {step.action.upper()} ({step.n_fail}/{step.n_total} failed)"
    return "\n".join([heading, *map(_pattern, step.patterns), *_rejected(step)])


def _pattern(pattern: FailurePattern) -> str:
    named = ": ".join(filter(None, (pattern.failure_type, pattern.description)))
    tasks = f", tasks: {', '.join(pattern.task_ids)}" if pattern.task_ids else ""
    return f"- {_quoted(named)} (×{pattern.count}{tasks})"


def _rejected(step: BufferedStep) -> Iterable[str]:
    if not step.rejected_edits:
        return
    scores = ""
    if step.score_before is not None and step.score_after is not None:
        scores = f" (score {step.score_before:.4g} → {step.score_after:.4g})"
    yield f"Rejected edits{scores}:"
    for number, tried in enumerate(step.rejected_edits, start=1):
        yield f"{number}. {_told(tried)}"


def _told(tried: Tried) -> str:
    match tried:
        case Edit():
            target = f" target={_quoted(tried.target)} →" if tried.target else ""
            return f"[{_word(tried.op)}]{target} {_quoted(tried.content)}"
        case Suggestion():
            return f"[{_word(tried.type)}] {_quoted(tried.title)} → {_quoted(tried.instruction)}"
        case SkillCandidate():
            return f"[new document] {_quoted(tried.title)}"


def _word(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """Return ``text`` on one line, so that nothing inside it can pass for a line of the list."""
    shown = text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + " […]"
    return json.dumps(shown, ensure_ascii=False)

"""Where the run stands and what this command has consumed, on one line."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from skillopt_ci.cli.stages import rate_text
from skillopt_ci.progress import CallPaid, Event, StepStarted
from skillopt_ci.report.text import plural
from skillopt_ci.sanitize import harmless_line

_THOUSAND, _MILLION = 1_000, 1_000_000


@dataclass(frozen=True, slots=True)
class RunLine:
    """What the line says; ``began`` is a time of the observer's clock, ``cost`` None if unknown."""

    began: float
    step: StepStarted | None = None
    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0


def noted(line: RunLine, event: Event) -> RunLine:
    """The line after ``event``; most events do not change it."""
    if isinstance(event, StepStarted):
        return replace(line, step=event)
    if isinstance(event, CallPaid):
        unknown = line.cost is None or event.cost_usd is None
        cost = None if unknown else (line.cost or 0.0) + (event.cost_usd or 0.0)
        tokens = line.tokens + event.tokens
        return replace(line, calls=line.calls + 1, tokens=tokens, cost=cost)
    return line


def run_line_text(line: RunLine, now: float, width: int | None = None) -> str:
    """``step 3/12 epoch 1 · skill 0.675 · last merged · 40 calls 4.0/s · $1.20 · 60k tokens``.

    What does not fit into ``width`` columns is left out as a whole, the least missed first: a
    figure that is cut off would be another figure.
    """
    parts = {**_standing(line.step), **_consumed(line, now)}
    for spare in ("tokens", "last", "skill", "cost"):
        if width is not None and len(_joined(parts)) > width:
            parts.pop(spare, None)
    return _joined(parts)


def _joined(parts: Mapping[str, str]) -> str:
    return " · ".join(parts.values())


def step_text(step: StepStarted) -> str:
    """The beginning of a step, for logs."""
    last = f", the last step {harmless_line(step.last)}" if step.last else ""
    return (
        f"{step.step} of {step.total}, epoch {step.epoch}: the skill scores {step.score:.3f} "
        f"on {plural(step.tasks, 'task')}{last}"
    )


def _standing(step: StepStarted | None) -> dict[str, str]:
    if step is None:
        return {}
    # the first words of the verdict: the figures after it have to fit in 80 columns
    last = {"last": f"last {harmless_line(step.last).partition(',')[0]}"} if step.last else {}
    place = f"step {step.step}/{step.total} epoch {step.epoch}"
    return {"place": place, "skill": f"skill {step.score:.3f}", **last}


def _consumed(line: RunLine, now: float) -> dict[str, str]:
    if line.calls == 0:
        return {}
    calls = f"{plural(line.calls, 'call')} {rate_text(line.calls, now - line.began)}".rstrip()
    cost = {} if line.cost is None else {"cost": f"${line.cost:.2f}"}
    return {"calls": calls, **cost, "tokens": f"{_short(line.tokens)} tokens"}


def _short(count: int) -> str:
    if count < _THOUSAND:
        return str(count)
    if count < _MILLION:
        return f"{count / _THOUSAND:.0f}k"
    return f"{count / _MILLION:.1f}M"

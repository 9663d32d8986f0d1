"""What is known of the stages under way, and the words for it."""

from dataclasses import dataclass, replace

from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.sanitize import harmless_line

NAME_WIDTH = 11
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage under way: ``total`` is 0 if unknown, ``started`` a time of the observer's clock."""

    name: str
    total: int
    started: float
    done: int = 0
    detail: str = ""


Stages = dict[str, Stage]


def after(
    stages: Stages, event: StageStarted | StageAdvanced | StageFinished, now: float
) -> Stages:
    """Return the stages under way after ``event``."""
    others = {name: stage for name, stage in stages.items() if name != event.stage}
    if isinstance(event, StageFinished):
        return others
    if isinstance(event, StageStarted):
        return others | {event.stage: Stage(event.stage, event.total, now)}
    stage = stages.get(event.stage, Stage(event.stage, 0, now))
    advanced = replace(stage, done=stage.done + 1, detail=harmless_line(event.detail))
    return stages | {event.stage: advanced}


def count_text(stage: Stage) -> str:
    """``17 of 40``, or ``17`` where nobody knows how many there will be."""
    return f"{stage.done} of {stage.total}" if stage.total else f"{stage.done}"


def rate_text(done: int, seconds: float) -> str:
    """A mean rate in the unit that makes it readable; nothing before there is one."""
    if done == 0 or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * _MINUTE:.1f}/min"


def time_text(seconds: float) -> str:
    """``8 s``, ``1 min 12 s``, ``2 h 03 min``."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"


def finished_text(event: StageFinished, stage: Stage | None, now: float) -> str:
    """What a finished stage leaves on the screen: its summary, and its time if it took any."""
    summary = harmless_line(event.summary)
    seconds = 0.0 if stage is None else now - stage.started
    took = f"({time_text(seconds)})" if seconds >= 1 else ""
    return " ".join(part for part in (summary, took) if part) or "done"

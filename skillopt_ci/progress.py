"""Progress events of a run, passed to an observer, which may draw or ignore them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins; ``total`` is the number of units it will report, 0 if unknown."""

    stage: str
    total: int = 0


@dataclass(frozen=True, slots=True)
class StageAdvanced:
    """One unit of the stage is done; ``detail`` briefly describes it."""

    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StageFinished:
    stage: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A message for people; ``level`` is ``info`` or ``warning``."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A training step begins, on a skill with a score; ``last`` is the last step's verdict."""

    step: int
    total: int
    epoch: int
    score: float
    tasks: int
    last: str = ""


@dataclass(frozen=True, slots=True)
class CallPaid:
    """A model call was answered and paid for; the cost in US dollars is None if unknown."""

    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class TerminalLent:
    """A person types at the terminal from now on, so nothing may be redrawn there."""


#: Events of one stage.
StageEvent = StageStarted | StageAdvanced | StageFinished
Event = StageEvent | Note | StepStarted | CallPaid | TerminalLent

#: Receives events in order, in the thread that runs the step; must not raise.
Observer = Callable[[Event], None]


def silent(_: object) -> None: ...

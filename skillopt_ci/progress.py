"""What a run tells while it works: values handed to an observer, which may draw or ignore them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins; ``total`` is the number of units it will report, 0 if unknown."""

    stage: str
    total: int = 0


@dataclass(frozen=True, slots=True)
class StageAdvanced:
    """One unit of the stage is done; ``detail`` is a short word on it."""

    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StageFinished:
    stage: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person should know; ``level`` is ``info`` or ``warning``."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A training step begins, on a skill of a known score; ``last`` is the last step's verdict."""

    step: int
    total: int
    epoch: int
    score: float
    tasks: int
    last: str = ""


@dataclass(frozen=True, slots=True)
class CallPaid:
    """A model call was answered and paid for; the cost is in US dollars, None if unknown."""

    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class TerminalLent:
    """From now on a person types at the terminal: nothing may be redrawn there."""


#: What is told of one stage.
StageEvent = StageStarted | StageAdvanced | StageFinished
Event = StageEvent | Note | StepStarted | CallPaid | TerminalLent


#: Receives events in order, in the thread that runs the step; must not raise.
Observer = Callable[[Event], None]


def silent(_: Event) -> None: ...

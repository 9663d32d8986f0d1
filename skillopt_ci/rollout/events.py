"""What happens in an attempt, as events: typed here, one JSON object for each in the record."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.rollout.steps import (
    Asked,
    GradedStep,
    Limit,
    ModelSaid,
    Nudged,
    Step,
    Told,
    ToolUsed,
)

#: Version of the events' keys; a reader leaves out what it does not know.
EVENTS_VERSION = 1


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A solver begins to work; ``skill_sha256`` names the text that it reads."""

    solver: str
    skill_sha256: str


@dataclass(frozen=True, slots=True)
class StepTaken:
    """A step of the solver."""

    step: Step


@dataclass(frozen=True, slots=True)
class TryFailed:
    """Infrastructure spoilt a try."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """The work is done and can be graded.

    ``response`` is None where it is what the model said last. ``key`` is that of the stored
    attempt, empty if it is not stored; ``stored`` says that it was found there.
    """

    response: str | None
    key: str = ""
    stored: bool = False
    limit: Limit | None = None
    artifact_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """What came of the attempt."""

    status: Status
    hard: float
    soft: float
    reason: str
    turns: int
    retries: int
    calls: int
    tokens: int
    cost_usd: float | None

    @classmethod
    def of(cls, rollout: Rollout) -> "AttemptEnded":
        """The event that ``rollout`` is."""
        used = rollout.usage
        return cls(
            rollout.status,
            rollout.hard,
            rollout.soft,
            rollout.reason,
            rollout.n_turns,
            rollout.retries,
            used.calls,
            used.tokens,
            used.cost_usd,
        )


RolloutEvent = AttemptStarted | StepTaken | TryFailed | WorkEnded | AttemptEnded


class Recorder(Protocol):
    """Takes events of the attempt that is under way; must not raise, nor take long."""

    def __call__(self, event: RolloutEvent) -> None:
        """Take note of ``event``."""
        ...


def nobody(event: RolloutEvent) -> None:
    """Record nothing."""
    del event


_TYPES: Mapping[type[object], str] = MappingProxyType(
    {
        AttemptStarted: "attempt_started",
        TryFailed: "try_failed",
        WorkEnded: "work_ended",
        AttemptEnded: "attempt_ended",
        Asked: "asked",
        ModelSaid: "model_said",
        ToolUsed: "tool_used",
        Nudged: "nudged",
        Told: "told",
        GradedStep: "step_graded",
    }
)


def as_json(event: RolloutEvent) -> dict[str, object]:
    """The event's keys with their values, its ``type`` first; see :func:`shallow` for the rest."""
    told = event.step if isinstance(event, StepTaken) else event
    return {"type": _TYPES[type(told)], **shallow(told)}


def shallow(value: object) -> dict[str, object]:
    """The fields of a dataclass with slots, themselves left as they are: no text is copied."""
    return {name: getattr(value, name) for name in value.__slots__}  # type: ignore[attr-defined]

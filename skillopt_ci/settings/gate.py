"""How it is decided whether a candidate becomes the current skill."""

from typing import Literal

from pydantic import Field

from skillopt_ci.settings.base import Section


class GateSettings(Section):
    """The gate: how a candidate is compared with the current skill, and at what expense."""

    policy: Literal["strict", "paired", "sequential"] = "strict"
    """`strict`: any higher mean is accepted. `paired`: only a mean that is higher by more than
    chance explains, on the same tasks. `sequential`: the same, and close cases are attempted again
    under both skills, up to `attempts` times."""
    confidence: float = Field(default=0.8, ge=0.5, lt=1)
    """One minus the chance that `paired` and `sequential` accept a skill that is no better."""
    min_effect: float = Field(default=0.0, ge=0, lt=1)
    """The gain of the mean score that `paired` and `sequential` must be sure of."""
    effect: float = Field(default=0.1, gt=0, le=1)
    """The gain that is worth finding: `paired` and `sequential` stop where one of this size would
    hardly be accepted any more."""
    futility: float = Field(default=0.1, ge=0, lt=0.5)
    """The chance of being accepted below which they stop; 0 stops only where none is left."""
    attempts: int = Field(default=3, ge=1, le=20)
    """Most attempts at a task under each skill with `policy: sequential`."""
    early_stop: bool = True
    """Stop measuring a candidate when its rejection is certain."""
    look_every: int = Field(default=16, gt=0)
    """Tasks measured between two looks at the results: at best as many as are worked on at once
    (`model.target.max_concurrency`), fewer to save calls, more to save time."""
    remeasure: bool = False
    """Measure an accepted skill afresh: the lucky draw that won is not what later candidates are
    held against."""
    subset: int = Field(default=0, ge=0)
    """Selection tasks that a candidate is compared on, another part of them in each step; 0 means
    all."""
    max_consultations: int = Field(default=0, ge=0)
    """Candidates that may be measured on the selection tasks in a run; 0 means no limit."""
    max_type_loss: float | None = Field(default=None, ge=0, le=1)
    """Largest loss of the mean score that an accepted skill may bring to any type of task."""

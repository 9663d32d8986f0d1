"""How several candidates of one step are tried against each other."""

from pydantic import Field

from skillopt_ci.settings.base import Section


class Race(Section):
    """The race: which of the proposed edits go into the candidate, by what they do on tasks.

    It needs single edits, hence `skill_update_mode: patch`.
    """

    arms: int = Field(default=0, ge=0, le=64)
    """Subsets of the edits that are tried in each heat; 0 means no race."""
    tasks: int = Field(default=8, gt=0)
    """Tasks of the step's batch on which each of them is tried."""
    heats: int = Field(default=2, gt=0, le=8)
    """Rounds; edits that are unlikely to help drop out after each."""
    pool: int = Field(default=12, ge=0, le=48)
    """Most edits that enter a race, in place of the learning rate; 0 leaves that in force."""
    keep: float = Field(default=0.5, ge=0, lt=1)
    """The probability of being helpful that an edit needs to go into the candidate."""
    prune: float = Field(default=0.8, ge=0.5, le=1)
    """Rules of the document enter the race as deletions when they are harmful with this
    probability, by all that was measured so far; 1 means never."""

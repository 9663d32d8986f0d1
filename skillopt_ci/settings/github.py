"""What is shown on GitHub, and how pull requests are judged and merged."""

from typing import Literal

from pydantic import Field, field_validator

from skillopt_ci.settings.base import Section


class GitHub(Section):
    """How a run shows itself on GitHub, and how a person's change to the skill is judged."""

    comments: Literal["sticky", "per-step", "off"] = "sticky"
    """`sticky`: one comment that is kept current; `per-step`: one for each step; `off`: none."""
    draft: bool = True
    """Open the pull request as a draft until a step was merged."""
    labels: tuple[str, ...] = ("skillopt",)
    """Put on the pull request."""
    merge: Literal["manual", "auto"] = "manual"
    """`auto`: GitHub merges an improvement as soon as the protection of the base allows it."""
    merge_method: Literal["merge", "squash", "rebase"] = "merge"
    """How `merge: auto` does it."""
    fail_on: Literal["regression", "never"] = "regression"
    """What makes the check of a person's change red."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """How sure one must be that it was not chance to call a change better or worse."""
    threshold: float = Field(default=0.0, ge=0, le=1)
    """Smallest change of the mean score that is called better or worse."""

    @field_validator("comments", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        """YAML of old reads a bare `off` as false."""
        return "off" if value is False else value

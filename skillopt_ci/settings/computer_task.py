"""What a task needs of the computer that it is worked on with."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from skillopt_ci.settings.base import Section


def _argv(value: object) -> object:
    return ("sh", "-c", value) if isinstance(value, str) else value


def as_files(value: object) -> dict[str, str] | tuple[str, ...]:
    """Read a list of paths, or a mapping from names to their text; raises ValueError."""
    match value:
        case dict() if all(isinstance(text, str) for text in value.values()):
            return value
        case list() | tuple() if all(isinstance(name, str) for name in value):
            return tuple(value)
    raise ValueError("expected a list of paths, or a mapping from names to their text")


#: Program and arguments; a plain text is a line for `sh -c`.
Command = Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_argv)]
Files = Annotated[dict[str, str] | tuple[str, ...], BeforeValidator(as_files)]


class LimitChanges(Section):
    """Limits of one task, in the place of those of `rollout.limits`."""

    setup_seconds: float | None = Field(default=None, gt=0)
    """Seconds to start the computer and set it up."""
    rollout_seconds: float | None = Field(default=None, gt=0)
    """Seconds of work."""
    grading_seconds: float | None = Field(default=None, gt=0)
    """Seconds for each command that grades."""
    steps: int | None = Field(default=None, gt=0)
    """Answers of the model."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens together."""
    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars."""

    def named(self) -> dict[str, object]:
        """Return the limits that are given."""
        return self.model_dump(exclude_none=True)


class Submission(Section):
    """How a submission is looked at before the agent may end."""

    command: Command
    """Run on the agent's computer; exit status 0: there is a valid submission."""
    message: str = ""
    """What the agent is told if not; by default the end of what the command printed."""


class ComputerBlock(Section):
    """The `computer` block of a task."""

    files: Files = ()
    """Written to the workspace first: names with their text, or paths relative to the task file."""
    setup: tuple[Command, ...] = ()
    """Commands that prepare the workspace, each as a list; a plain text is run by `sh -c`."""
    network: Literal["none", "open"] | None = None
    """What the computer can reach; by default what `rollout.computer` says."""
    image: str | None = None
    """Docker image, in the place of that of `rollout.computer`."""
    environ: dict[str, str] = Field(default_factory=dict)
    """Variables set inside, besides those of `rollout.computer`."""
    submission: Submission | None = None
    """How to tell whether there is a valid submission."""
    artifacts: tuple[str, ...] = ("**",)
    """What of the workspace is kept and handed to the grader, as paths and globs."""
    limits: LimitChanges | None = None
    """Limits of this task."""

    def over(self, common: "ComputerBlock | None") -> "ComputerBlock":
        """Return this block, with what it does not name taken from ``common``; files aside."""
        if common is None:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        merged = common.model_copy(update=given)
        return merged.model_copy(update={"environ": {**common.environ, **self.environ}})

"""A job of the runner, with all that its activities need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skillopt_ci.action.activity import Evaluate
from skillopt_ci.action.git_access import repositories
from skillopt_ci.action.inputs import Inputs
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.action.runner import Runner
from skillopt_ci.action.workflow_commands import JobLog
from skillopt_ci.cli.options import Globals
from skillopt_ci.github.types import Forge
from skillopt_ci.redaction import Redactor


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands on GitHub after something was published; ``report`` is the comment's text.

    ``notes`` say what GitHub would not do, such as the permission that it takes.
    """

    report: str = ""
    pull_request: int | None = None
    notes: tuple[str, ...] = ()
    outputs: Outputs | None = None
    """The outputs of an evaluation."""
    exit_code: int = 0


class Publisher(Protocol):
    """Shows a run on GitHub."""

    def publish(self, settings: Globals, inconclusive: str) -> Shown:
        """Show the run as its git record says, and why the job had no verdict, if it had none."""


class Reviewer(Protocol):
    """Reviews what people propose and ask for on pull requests."""

    def requested(self, comment: str) -> str:
        """Return the word after `/skillopt` in a comment; empty if it holds no command."""

    def evaluate(self, settings: Globals, pull: Evaluate) -> Shown:
        """Compare a pull request's skill with its base, and show what came of it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One start of the action. Without a token there is no forge, and nothing that needs one."""

    runner: Runner
    inputs: Inputs
    log: JobLog
    environ: Mapping[str, str] = field(repr=False)
    forge: Forge | None = None
    publisher: Publisher | None = None
    reviewer: Reviewer | None = None
    redact: Redactor = field(default_factory=Redactor, repr=False)

    @property
    def folder(self) -> Path:
        """The folder that the command runs in."""
        return self.runner.workspace / self.inputs.directory

    @property
    def keep(self) -> Path:
        """Where files for later steps of the job are left: no checkout shows it."""
        return repositories(self.runner.workspace, self.folder)[-1] / ".git" / "skillopt-ci"

    @property
    def settings(self) -> Globals:
        """The command line's globals."""
        return Globals(
            environ=self.environ,
            cwd=self.folder,
            config=Path(self.inputs.config),
            overrides=self.inputs.overrides,
            run=self.inputs.run or None,
            verbosity=int(self.runner.debug),
            redact=self.redact,
        )

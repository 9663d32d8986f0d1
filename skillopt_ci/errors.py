"""Everything that can stop skillopt-ci, with its exit code."""

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    DONE = 0
    DEFECT = 1
    USAGE = 2
    NOTHING_TO_DO = 3
    BUDGET = 4
    INFRASTRUCTURE = 5
    LOST_RACE = 6
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class SkilloptError(Exception):
    """A failure with a message for people.

    ``message`` says in one sentence what happened, ``hint`` what to do about it; ``details`` adds
    facts for programs.
    """

    exit_code = ExitCode.DEFECT

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = {}

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(SkilloptError):
    """Something that the user asked for or wrote cannot work as it stands."""

    exit_code = ExitCode.USAGE


class LocatedError(UsageError):
    """A usage error that points at a line of a file."""

    def __init__(
        self, message: str, *, file: Path | None = None, line: int | None = None, hint: str = ""
    ) -> None:
        self.file = file
        self.line = line
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + message, hint=hint)


class ConfigError(LocatedError):
    """A configuration file or override that does not describe a run."""


class TaskFileError(LocatedError):
    """A task file that cannot be used: encoding, shape, duplicates, overlapping splits."""


class SkillError(LocatedError):
    """A skill document that cannot be trained."""


class RepositoryError(UsageError):
    """The git repository is in a state in which no step can start."""


class ModelSetupError(UsageError):
    """A model role is configured so that no call can ever succeed (key, name, endpoint)."""


class NothingToLearn(SkilloptError):
    """The skill leaves nothing to learn on these tasks."""

    exit_code = ExitCode.NOTHING_TO_DO


class BudgetExhausted(SkilloptError):
    """A budget was reached before a call; all that was paid for is kept."""

    exit_code = ExitCode.BUDGET


class InfrastructureError(SkilloptError):
    """The world failed: never scored as the model's failure."""

    exit_code = ExitCode.INFRASTRUCTURE


class TooManyErrors(InfrastructureError):
    """More tasks ended in errors than ``evaluation.max_error_rate`` allows."""


class OptimizerUnusable(InfrastructureError):
    """The optimizer replies, but nothing that it replies can be used."""


class EnvironmentFailure(InfrastructureError):
    """The environment's own program failed on an attempt: never scored as the model's failure."""


class PushRefused(InfrastructureError):
    """The remote refused the push for a reason other than a race."""


class LostRace(SkilloptError):
    """Another run moved the skills branch first."""

    exit_code = ExitCode.LOST_RACE


class ComputerUnavailable(UsageError):
    """This machine cannot provide this kind of computer, or a limit that you asked for."""


class ComputerFailure(InfrastructureError):
    """The computer itself failed: nothing that was run in it is to blame, a new one may work."""


class FileRefused(SkilloptError):
    """A path is missing, no plain file, outside or too large: the caller's business."""

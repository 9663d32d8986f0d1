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

    ``message`` says in a sentence what happened, ``hint`` what to do; ``details`` is for programs.
    """

    exit_code = ExitCode.DEFECT

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = {}

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    @property
    def sentences(self) -> str:
        """Message and hint in a line, for texts that keep no line ends."""
        parts = (part for part in (self.message, self.hint) if part)
        ended = (part if part.endswith((".", "?", "!")) else f"{part}." for part in parts)
        return " ".join(" ".join(ended).split())


class UsageError(SkilloptError):
    """Wrong command line, or a request that cannot work, for example since the disk is full."""

    exit_code = ExitCode.USAGE


class LocatedError(UsageError):
    """An error in a line of a file."""

    def __init__(
        self, message: str, *, file: Path | None = None, line: int | None = None, hint: str = ""
    ) -> None:
        self.file = file
        self.line = line
        told = message if file is None else f"{location(file, line)}: {message}"
        super().__init__(told, hint=hint)


def location(file: Path | None, line: int | None) -> str:
    if file is None:
        return "(not from a file)"
    return f"{file}" if line is None else f"{file}:{line}"


class ConfigError(LocatedError):
    """An invalid configuration file or override."""


class TaskFileError(LocatedError):
    """An unusable task file: encoding, shape, duplicates, overlapping splits."""


class SkillError(LocatedError):
    """A document that cannot be trained as a skill."""


class RepositoryError(UsageError):
    """The git repository's state prevents training."""


class ModelSetupError(UsageError):
    """No call to a model can succeed as configured: key, name or address."""


class NothingToLearn(SkilloptError):
    """The skill leaves nothing to learn on these tasks."""

    exit_code = ExitCode.NOTHING_TO_DO


class BudgetExhausted(SkilloptError):
    """A budget was reached before a call; every paid answer is kept."""

    exit_code = ExitCode.BUDGET


class InfrastructureError(SkilloptError):
    """A server, the network, the remote or a disk failed; never scored as the model's failure."""

    exit_code = ExitCode.INFRASTRUCTURE


class TooManyErrors(InfrastructureError):
    """More attempts ended in errors than ``evaluation.max_error_rate`` allows."""


class OptimizerUnusable(InfrastructureError):
    """The optimizer's replies are unusable."""


class EnvironmentFailure(InfrastructureError):
    """The environment's own program failed; never scored as the model's failure."""


class PushRefused(InfrastructureError):
    """The remote refused the push, and not because another run was first."""


class LostRace(SkilloptError):
    """Another run moved the skills branch first."""

    exit_code = ExitCode.LOST_RACE


class ComputerUnavailable(UsageError):
    """This machine cannot provide this type of computer, or a limit that you set."""


class ComputerFailure(InfrastructureError):
    """A computer failed, not what ran on it; a new one may work."""


class FileRefused(SkilloptError):
    """A path is missing, no plain file, outside or too large: the caller's business."""

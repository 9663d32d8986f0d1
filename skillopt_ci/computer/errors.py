"""What can go wrong with a computer."""

from skillopt_ci.errors import InfrastructureError, SkilloptError, UsageError


class ComputerUnavailable(UsageError):
    """This kind of computer, or a limit that was asked for, cannot be had on this machine."""


class ComputerFailure(InfrastructureError):
    """The computer itself failed: nothing that was run in it is to blame, a new one may work."""


class FileRefused(SkilloptError):
    """A path is not there, is no plain file, is outside or too large: the caller's business."""

"""What GitHub can answer instead of doing what it was asked.

::

    UsageError
    └── Refused                  2   the request was understood and not allowed
        ├── PermissionMissing    2   the token lacks a permission, or a setting forbids it
        ├── ConversationLocked   2   a maintainer locked the pull request
        └── NotFound             2   no such thing, or the token may not see it
    InfrastructureError
    └── Unavailable              5   network, server error, rate limit
        └── AnswerLost           5   it may have been done all the same: look before asking again

All of them are `SkilloptError`; whoever publishes what was already paid for turns them into
notes.
"""

from skillopt_ci.errors import InfrastructureError, UsageError


class Refused(UsageError):
    """GitHub understood the request and did not allow it: its status and its words."""

    def __init__(self, message: str, *, status: int = 0, words: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.words = words


class PermissionMissing(Refused):
    """The token or a setting of the repository does not permit it.

    ``permission`` is what to grant, as a workflow writes it (``pull-requests: write``); empty if
    a setting and not a permission is in the way.
    """

    permission = ""


class ConversationLocked(Refused):
    """A maintainer locked the conversation of the pull request."""


class NotFound(Refused):
    """There is no such thing, or the token may not see it: GitHub does not tell which."""


class Unavailable(InfrastructureError):
    """GitHub could not be reached or did not answer usefully, also after retries."""


class AnswerLost(Unavailable):
    """A request was sent and its answer never came: it may have been carried out."""

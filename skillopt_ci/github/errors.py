"""What GitHub can answer instead of doing what it was asked, and what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from github.GithubException import (
    BadAttributeException,
    GithubException,
    RateLimitExceededExceedsMaxWait,
    RateLimitExceededException,
)
from requests import RequestException

from skillopt_ci.errors import InfrastructureError, UsageError


class Refused(UsageError):
    """GitHub understood the request and did not allow it: its status and its words."""

    def __init__(self, message: str, *, status: int = 0, words: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.words = words


class PermissionMissing(Refused):
    """The token or a setting of the repository does not permit it."""


class NotFound(Refused):
    """It does not exist, or the token may not see it: GitHub does not say which."""


class Unavailable(InfrastructureError):
    """GitHub could not be reached or did not answer usefully, even after retries."""


class AnswerLost(Unavailable):
    """A request was sent and its answer never came: it may have been carried out."""


_NOT_GRANTED = (
    "resource not accessible",
    "must have push access",
    "must have admin rights",
    "must have write access",
    "you must authenticate via a github app",
)
_MAY_NOT_OPEN = "not permitted to create or approve pull requests"
_SETTING = (
    "Tick Settings → Actions → General → "
    "“Allow GitHub Actions to create and approve pull requests”, or use the token of an app."
)


@contextmanager
def asking(what: str, permission: str = "") -> Iterator[None]:
    """Turn what PyGithub raises inside the block into the errors of this module.

    ``what`` completes "GitHub would not …"; ``permission`` is what it needs, as a workflow grants
    it.
    """
    try:
        yield
    except GithubException as error:
        raise _translate(error, what, permission) from error
    except RequestException as error:
        kind = type(error).__name__
        raise AnswerLost(f"could not {what}: GitHub did not answer ({kind})") from error
    except (AssertionError, RuntimeError, BadAttributeException) as error:
        # PyGithub's own words for answers that lead to another server or have another shape.
        raise Unavailable(
            f"could not {what}: GitHub's answer is not usable: {error}",
            hint="Is GITHUB_API_URL the API of the server that holds the repository?",
        ) from error


def _translate(error: GithubException, what: str, permission: str) -> Refused | Unavailable:
    words, status = _words(error), error.status
    if status == HTTPStatus.TOO_MANY_REQUESTS or isinstance(error, RateLimitExceededException):
        wait = error.wait if isinstance(error, RateLimitExceededExceedsMaxWait) else None
        rest = "is used up" if wait is None else f"asks to wait for {wait:.0f} s"
        return Unavailable(f"could not {what}: its rate limit {rest}")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return AnswerLost(f"could not {what}: GitHub answered {status} {words}".rstrip())
    kind, hint, said = Refused, "", words.lower()
    if status == HTTPStatus.UNAUTHORIZED:
        kind, hint = PermissionMissing, "The token is wrong or no longer valid."
    elif _MAY_NOT_OPEN in said:
        kind, hint = PermissionMissing, _SETTING
    elif "is locked" in said:
        hint = "Unlock the conversation."
    elif any(sign in said for sign in _NOT_GRANTED):
        kind = PermissionMissing
        hint = f"Grant `{permission}` to the job (its `permissions:`) or token."
    elif status == HTTPStatus.NOT_FOUND:
        kind, hint = NotFound, "Or the token may not see it: GitHub does not tell which."
    message = f"GitHub would not {what}: {words or status}"
    return kind(message, status=status, words=words, hint=hint)


def _words(error: GithubException) -> str:
    """What GitHub said, with details: sentences, or which field was wrong and how."""
    data = error.data if isinstance(error.data, dict) else {}
    said = [data.get("message") or error.message]
    details = data.get("errors")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            where = f"{detail.get('field', '')} {detail.get('code', '')}"
            said.append(detail.get("message") or where)
        else:
            said.append(detail)
    return "; ".join(str(word) for word in said if word)

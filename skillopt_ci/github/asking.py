"""Turn what PyGithub raises into our own failures, with what to do about them."""

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

from skillopt_ci.github.failure import (
    AnswerLost,
    ConversationLocked,
    NotFound,
    PermissionMissing,
    Refused,
    Unavailable,
)

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
    """Do something with PyGithub; ``what`` completes "GitHub would not …".

    ``permission`` is what it needs, as a workflow grants it. Raises the failures of
    :mod:`skillopt_ci.github.failure` instead of PyGithub's.
    """
    try:
        yield
    except GithubException as error:
        raise translate(error, what, permission) from error
    except RequestException as error:
        kind = type(error).__name__
        raise AnswerLost(f"could not {what}: GitHub did not answer ({kind})") from error
    except (AssertionError, RuntimeError, BadAttributeException) as error:
        # PyGithub's own words for answers that lead to another server or have another shape.
        raise Unavailable(
            f"could not {what}: GitHub's answer is not usable: {error}",
            hint="Is GITHUB_API_URL the API of the server that holds the repository?",
        ) from error


def translate(error: GithubException, what: str, permission: str) -> Refused | Unavailable:
    """Return the failure that an error of PyGithub stands for."""
    words = words_of(error)
    limited = error.status == HTTPStatus.TOO_MANY_REQUESTS
    if limited or isinstance(error, RateLimitExceededException):
        return Unavailable(f"could not {what}: {_rate(error)}")
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return AnswerLost(f"could not {what}: GitHub answered {error.status} {words}".rstrip())
    kind, hint = _reason(error.status, words.lower(), permission)
    message = f"GitHub would not {what}: {words or error.status}"
    refused = kind(message, status=error.status, words=words, hint=hint)
    if isinstance(refused, PermissionMissing):
        refused.permission = permission
    return refused


def _reason(status: int, words: str, permission: str) -> tuple[type[Refused], str]:
    """Return the kind of refusal and what to do about it."""
    if status == HTTPStatus.UNAUTHORIZED:
        return PermissionMissing, "The token is wrong or no longer valid."
    if _MAY_NOT_OPEN in words:
        return PermissionMissing, _SETTING
    if "is locked" in words:
        return ConversationLocked, "Unlock the conversation."
    if any(sign in words for sign in _NOT_GRANTED):
        return PermissionMissing, f"Grant `{permission}` to the job (its `permissions:`) or token."
    if status == HTTPStatus.NOT_FOUND:
        return NotFound, "Or the token may not see it: GitHub does not tell which."
    return Refused, ""


def words_of(error: GithubException) -> str:
    """Return what GitHub said, its details included."""
    data = error.data if isinstance(error.data, dict) else {}
    details = data.get("errors")
    said = [data.get("message") or error.message]
    said += map(_detail, details if isinstance(details, list) else ())
    return "; ".join(str(word) for word in said if word)


def _detail(detail: object) -> str:
    """Return a detail of a refusal: a sentence, or which field was wrong and how."""
    if not isinstance(detail, dict):
        return str(detail)
    return str(detail.get("message") or f"{detail.get('field', '')} {detail.get('code', '')}")


def _rate(error: GithubException) -> str:
    if isinstance(error, RateLimitExceededExceedsMaxWait) and error.wait is not None:
        return f"its rate limit asks to wait for {error.wait:.0f} s"
    return "its rate limit is used up"

"""Build the client of one repository."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self, TypeVar

from github import Auth, Github
from github.GithubException import (
    BadAttributeException,
    GithubException,
    RateLimitExceededExceedsMaxWait,
    RateLimitExceededException,
)
from github.GithubRetry import GithubRetry
from github.Repository import Repository
from requests import RequestException
from requests.utils import parse_header_links
from urllib3.response import BaseHTTPResponse

from skillopt_ci import __version__
from skillopt_ci.errors import InfrastructureError, UsageError
from skillopt_ci.github.types import Permission

# Which repository, on which server, with whose token.

PUBLIC_API = "https://api.github.com"


@dataclass(frozen=True, slots=True)
class Access:
    """A repository (`owner/name`) behind an API; the token is never shown."""

    repository: str
    token: str = field(repr=False)
    api_url: str = PUBLIC_API

    def __post_init__(self) -> None:
        owner, slash, name = self.repository.partition("/")
        if not (owner and slash and name) or "/" in name:
            raise UsageError(f"expected a repository as owner/name, not {self.repository!r}")
        if not self.token or not self.token.isascii() or not self.token.isprintable():
            raise UsageError(
                "the GitHub token is empty or has characters that no token has",
                hint="Pass it as it is: token: ${{ github.token }}",
            )
        if not self.api_url.startswith(("https://", "http://")):
            raise UsageError(f"GITHUB_API_URL is not a web address: {self.api_url!r}")


def from_environ(environ: Mapping[str, str], token: str = "") -> Access:
    """Read what a workflow's environment says; ``token`` goes before `GITHUB_TOKEN`, `GH_TOKEN`.

    Raises UsageError if it does not name a repository or has no token.
    """
    found = token or environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not repository:
        raise UsageError(
            "GITHUB_REPOSITORY is not set: which repository is this on GitHub?",
            hint="Outside of GitHub Actions: GITHUB_REPOSITORY=owner/name",
        )
    if not found:
        raise UsageError(
            "there is no GitHub token", hint="Set GITHUB_TOKEN, or `token` of the action."
        )
    url = environ.get("GITHUB_API_URL") or PUBLIC_API
    return Access(repository, found.strip(), url.rstrip("/"))


# What GitHub can answer instead of doing what it was asked.


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


# Turn what PyGithub raises into our own failures, with what to do about them.

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
    :mod:`skillopt_ci.github.client` instead of PyGithub's.
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


# When a request to GitHub is sent again, and how long that is waited for.

_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
_TURNED_AWAY = (403, 429)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long GitHub is waited for; all times in seconds."""

    wait: Callable[[float], None] = time.sleep
    retries: int = 5
    longest: float = 120.0
    """A rate limit that asks for more ends the attempt."""
    between_writes: float = 1.0
    """GitHub's advice against its secondary limits."""
    timeout: int = 30

    def retry(self) -> "Retry":
        """Return the policy for one client."""
        return Retry(
            wait=self.wait,
            total=self.retries,
            backoff_factor=1.0,
            backoff_jitter=0.5 if self.wait is time.sleep else 0.0,
            allowed_methods=_REPEATABLE,
            status_forcelist=[429, *range(500, 600)],
            max_rate_limit_wait=self.longest,
            secondary_rate_wait=min(60.0, self.longest),
        )


class Retry(GithubRetry):
    """PyGithub's policy with edits, without blind creations, and with a bound on every wait."""

    def __init__(self, *, wait: Callable[[float], None] = time.sleep, **options: Any) -> None:
        self.wait = wait
        super().__init__(**options)

    def new(self, **changes: Any) -> Self:
        """Return a copy, as urllib3 makes one per try."""
        return super().new(wait=self.wait, **changes)

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Say whether the answer allows to ask again."""
        if method.upper() == "POST":
            return status_code in _TURNED_AWAY
        return super().is_retry(method, status_code, has_retry_after)

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return the seconds that the server asks for; a 429 that asks for none means a minute."""
        asked = super().get_retry_after(response)
        if asked is None and response.status == 429:  # noqa: PLR2004
            return self.secondary_rate_wait
        return asked

    def increment(self, *args: Any, **options: Any) -> Self:
        """Count a try; raises RateLimitExceededExceedsMaxWait if the next one is too far off."""
        response = options.get("response")
        if response is not None:
            asked = self.get_retry_after(response) or 0.0
            if self.max_rate_limit_wait is not None and asked > self.max_rate_limit_wait:
                raise RateLimitExceededExceedsMaxWait(response.status, None, None, None, wait=asked)
        return super().increment(*args, **options)  # type: ignore[return-value]

    def sleep_for_retry(self, response: BaseHTTPResponse) -> bool:
        """Wait as long as the server asks; say whether it did."""
        asked = self.get_retry_after(response)
        if asked:
            self.wait(asked)
        return bool(asked)

    def _sleep_backoff(self) -> None:
        backoff = self.get_backoff_time()
        if backoff > 0:
            self.wait(backoff)


@dataclass(frozen=True, slots=True)
class Client:
    """A repository as PyGithub sees it, never fetched before something is asked of it."""

    hub: Github
    repo: Repository
    name: str
    """`owner/name`, known without asking."""
    patience: Patience

    @property
    def owner(self) -> str:
        """The account that the repository belongs to."""
        return self.name.partition("/")[0]

    def send(self, method: str, path: str, content: object = None) -> Any:
        """Ask for ``path`` below the repository and return the answer, as PyGithub raises it."""
        _, answer = self.repo.requester.requestJsonAndCheck(
            method, self.repo.url + path, input=content
        )
        return answer

    def listing(self, path: str) -> Iterator[Any]:
        """Yield what a list below the repository has, over all pages."""
        url: str | None = self.repo.url + path
        parameters: dict[str, object] | None = {"per_page": 100}
        while url is not None:
            headers, page = self.repo.requester.requestJsonAndCheck("GET", url, parameters)
            yield from page
            links = parse_header_links(headers.get("link", ""))
            url = next((link["url"] for link in links if link.get("rel") == "next"), None)
            parameters = None


def connect(access: Access, patience: Patience | None = None) -> Client:
    """Return a client; nothing is sent yet."""
    patience = patience or Patience()
    # PyGithub prints every refusal and retry by itself; ours are errors and notes.
    logging.getLogger("github").setLevel(logging.WARNING)
    hub = Github(
        auth=Auth.Token(access.token),
        base_url=access.api_url,
        timeout=patience.timeout,
        user_agent=f"skillopt-ci/{__version__}",
        per_page=100,
        retry=patience.retry(),
        seconds_between_requests=0,
        seconds_between_writes=patience.between_writes,
        lazy=True,
    )
    return Client(hub, hub.get_repo(access.repository), access.repository, patience)


# Who the token speaks for, and what others may do.

#: The account behind every workflow's own token.
ACTIONS = "github-actions[bot]"
_PERMISSIONS: tuple[Permission, ...] = ("read", "write", "admin")
_VIEWER = "query { viewer { login } }"


def login(client: Client) -> str:
    """Return the token's account. Tokens of apps may not ask for it in the usual way."""
    try:
        with asking("say whose token this is"):
            return client.hub.get_user().login
    except PermissionMissing as missing:
        if missing.status == HTTPStatus.UNAUTHORIZED:
            raise
    try:
        with asking("say whose token this is"):
            _, answer = client.repo.requester.graphql_query(_VIEWER, {})
    except Refused:
        return ACTIONS
    return str(answer["data"]["viewer"]["login"])


def permission_of(client: Client, account: str) -> Permission:
    """Return what ``account`` may do here; nothing if there is no such account."""
    try:
        with asking(f"say what {account} may do", "metadata: read"):
            answer = client.repo.get_collaborator_permission(account)
    except NotFound:
        return "none"
    return next((known for known in _PERMISSIONS if known == answer), "none")


# Create something exactly once although answers get lost.

T = TypeVar("T")

_PAUSES = (1.0, 5.0)


def create_once(
    create: Callable[[], T], find: Callable[[], T | None], wait: Callable[[float], None]
) -> T:
    """Create it; after a lost answer look whether it is there before asking again.

    Raises AnswerLost after three attempts, and whatever else ``create`` and ``find`` raise.
    """
    for pause in _PAUSES:
        try:
            return create()
        except AnswerLost:
            wait(pause)
            found = find()
            if found is not None:
                return found
    return create()


# Texts as GitHub takes and returns them. Its size limits are a last resort here: whoever writes
# the texts keeps to less.

BODY = 65_536
"""Characters of a comment or of a pull request's body."""
SUMMARY = 65_535
"""Characters of a check's summary."""
TITLE = 256
"""Characters of a title."""
STATUS = 140
"""Characters of a commit status."""
ANNOTATION = 60_000
"""Bytes of an annotation's message, a little less than the 64 KB that GitHub takes."""

_NOTICE = "\n\n(cut here: longer than GitHub takes)"


def clip_text(text: str, limit: int) -> str:
    """Return ``text``, cut at a line's end and with a notice if it is longer than ``limit``."""
    whole = _head(text, limit)
    if len(whole) == len(text):
        return whole
    head = _head(text, limit - len(_NOTICE))
    line_end = head.rfind("\n")
    return (head if line_end <= 0 else head[:line_end]) + _NOTICE


def clip_line(text: str, limit: int) -> str:
    """Return ``text`` as one line of at most ``limit`` characters."""
    line = " ".join(text.split())
    whole = _head(line, limit)
    return whole if len(whole) == len(line) else _head(line, limit - 1) + "…"


def same_text(one: str | None, other: str) -> bool:
    """Say whether GitHub, which turns line ends into its own and trims, has this text already."""
    return _plain(one or "") == _plain(other)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _head(text: str, limit: int) -> str:
    """Return what fits, counted as GitHub may do it: an emoji weighs two."""
    return text.encode("utf-16-le", "replace")[: 2 * limit].decode("utf-16-le", "ignore")

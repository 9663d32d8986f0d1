"""The client of one repository: token, retries and errors."""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

from github import Auth, Github
from github.GithubException import (
    BadAttributeException,
    GithubException,
    RateLimitExceededExceedsMaxWait,
    RateLimitExceededException,
)
from github.GithubRetry import GithubRetry
from github.Repository import Repository
from requests.exceptions import InvalidJSONError, RequestException
from requests.utils import parse_header_links
from urllib3.exceptions import MaxRetryError
from urllib3.response import BaseHTTPResponse

from skillopt_ci import __version__
from skillopt_ci.errors import InfrastructureError, SkilloptError, UsageError
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.util import stray_character

T = TypeVar("T")

PUBLIC_API = "https://api.github.com"
#: The account behind every workflow's own token.
ACTIONS = "github-actions[bot]"
#: PyGithub would follow 301 without the query, and so take any pull request for the run's.
_MOVED = (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT)
#: PyGithub would ask again for ever after 202, which says that the answer is not ready.
_NO_ANSWER = (HTTPStatus.ACCEPTED, *range(500, 600))
#: In seconds; a rate limit that asks for more is an error.
_LONGEST_WAIT = 120.0
#: Pauses in seconds before a creation is retried whose answer was lost.
_PAUSES = (1.0, 5.0)


class Refused(UsageError):
    """GitHub refused the request; has its status and its message."""

    def __init__(self, message: str, *, status: int = 0, words: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.words = words


class NotFound(Refused):
    """The object does not exist or the token may not see it; GitHub does not say which."""


class Unavailable(InfrastructureError):
    """GitHub could not be reached or gave no usable answer, even after retries."""


class AnswerLost(Unavailable):
    """A request got no answer; GitHub may have carried it out."""


_RIGHT_SERVER = "Is GITHUB_API_URL the API of the server that holds the repository?"
_GRANT = "Grant `{permission}` to the job (its `permissions:`) or token."
#: What to do about a refusal, by words of GitHub's.
_REMEDIES = {
    "resource not accessible": _GRANT,
    "must have push access": _GRANT,
    "must have admin rights": _GRANT,
    "must have write access": _GRANT,
    "permission to create labels": "Create it first (`gh label create`), or grant `issues: write`.",
    "you must authenticate via a github app": "A person's token cannot: use a job's or an app's.",
    "not permitted to create or approve pull requests": "Tick Settings → Actions → General → "
    "“Allow GitHub Actions to create and approve pull requests”, or use the token of an app.",
    "is locked": "Unlock the conversation.",
    "are not allowed on this repository": "Change `github.merge_method` (`merge` or `squash`).",
    "stacked p": "Merge it on its page, or take it out of its stack there (“Unstack”).",
    "/repositories/": "The repository was renamed or transferred: start a new job or, outside of "
    "jobs, set GITHUB_REPOSITORY to its new name.",
    "it moved to": _RIGHT_SERVER,
}
#: What to do about some of the exceptions of `requests`.
_HINTS = {
    "ProxyError": "Check HTTPS_PROXY, ALL_PROXY and NO_PROXY.",
    "InvalidSchema": "Name an HTTP proxy, no SOCKS.",
    "SSLError": "Set REQUESTS_CA_BUNDLE to a file with your certificate authority.",
    "InvalidJSONError": f"What came is not JSON, or was cut off. {_RIGHT_SERVER}",
}


@contextmanager
def asking(what: str, permission: str = "") -> Iterator[None]:
    """Turn PyGithub's exceptions into this module's; ``what`` completes "GitHub would not …"."""
    try:
        yield
    except GithubException as error:
        raise _translate(error, what, permission) from error
    except RequestException as error:
        kind = type(error).__name__
        raise AnswerLost(
            f"could not {what}: GitHub did not answer ({kind})", hint=_HINTS.get(kind, "")
        ) from error
    except (AssertionError, RuntimeError, BadAttributeException, LookupError, TypeError) as error:
        # PyGithub raises these for links to another server, and for JSON that is not GitHub's.
        raise Unavailable(
            f"could not {what}: GitHub's answer is not usable: {error!r}", hint=_RIGHT_SERVER
        ) from error


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Turn an error inside the block into a note."""
    try:
        yield
    except SkilloptError as error:
        if error.sentences not in notes:
            notes.append(error.sentences)


def _translate(error: GithubException, what: str, permission: str) -> Refused | Unavailable:
    words, status = _words(error), error.status
    # GraphQL says it, and that it timed out, with status 200, from which PyGithub makes 400
    by_graphql = words.lower() if status == HTTPStatus.BAD_REQUEST else ""
    if isinstance(error, RateLimitExceededException) or "rate limit" in by_graphql:
        wait = error.wait if isinstance(error, RateLimitExceededExceedsMaxWait) else None
        rest = "is used up" if wait is None else f"asks to wait for {wait:.0f} s"
        return Unavailable(f"could not {what}: GitHub's rate limit {rest}")
    if status in _NO_ANSWER or "went wrong while executing" in by_graphql:
        return AnswerLost(f"could not {what}: GitHub answered {status} {words}".rstrip())
    kind = Refused
    hint = next((hint for sign, hint in _REMEDIES.items() if sign in words.lower()), "")
    if status == HTTPStatus.UNAUTHORIZED:
        hint = "The token is wrong or no longer valid."
    elif status == HTTPStatus.NOT_FOUND and not hint:
        kind, hint = NotFound, "Or the token may not see it: GitHub does not say which."
    message = f"GitHub would not {what}: {words or status}"
    return kind(message, status=status, words=words, hint=hint.format(permission=permission))


def _words(error: GithubException) -> str:
    data = error.data if isinstance(error.data, dict) else {}
    said, details = [data.get("message") or error.message], data.get("errors")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            where = f"{detail.get('field', '')} {detail.get('code', '')}"
            said.append(detail.get("message") or where)
        else:
            said.append(detail)
    lines = [line.strip() for word in said if word for line in str(word).splitlines()]
    return "; ".join(line for line in lines if line)


def _access(environ: Mapping[str, str], token: str) -> tuple[str, str, str]:
    """The repository (`owner/name`), the token and the API's address."""
    if not (repository := environ.get("GITHUB_REPOSITORY", "")):
        raise UsageError(
            "GITHUB_REPOSITORY is not set: which repository is this on GitHub?",
            hint="Outside of GitHub Actions: GITHUB_REPOSITORY=owner/name",
        )
    names = ("INPUT_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")  # the first is the action's input
    if not (found := token or next(filter(None, map(environ.get, names)), "")):
        raise UsageError(
            "there is no GitHub token",
            hint="Set GITHUB_TOKEN (GITHUB_TOKEN=$(gh auth token)), or `token` of the action.",
        )
    if not re.fullmatch("[^/]+/[^/]+", repository):
        raise UsageError(f"expected a repository as owner/name, not {repository!r}")
    found = found.strip()
    stray = stray_character(found)
    if stray or not found:
        raise UsageError(
            f"the GitHub token {f'holds {stray}' if stray else 'is empty'}",
            hint="Pass it as it is: token: ${{ github.token }}",
        )
    url = (environ.get("GITHUB_API_URL") or PUBLIC_API).rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"GITHUB_API_URL is not a web address: {url!r}")
    return repository, found, url


class Retry(GithubRetry):
    """PyGithub's retries, without creations that may have succeeded, and with bounded waits."""

    def __init__(self, *, wait: Callable[[float], None] = time.sleep, **options: Any) -> None:
        self.wait = wait
        super().__init__(**options)

    def new(self, **changes: Any) -> Self:
        return super().new(wait=self.wait, **changes)

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Retry a creation only if it was refused, so that nothing is created twice."""
        if method.upper() == "POST":
            return status_code in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS, *_MOVED)
        return super().is_retry(method, status_code, has_retry_after)

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """The wait that the server asks for; the secondary rate limit's wait for a bare 429."""
        asked = super().get_retry_after(response)
        if asked is None and response.status == HTTPStatus.TOO_MANY_REQUESTS:
            return self.secondary_rate_wait
        return asked

    def increment(self, *args: Any, **options: Any) -> Self:
        """Raise the last answer if it redirects, asks for too long a wait, or is one too many."""
        if (response := options.get("response")) is None:
            return super().increment(*args, **options)  # type: ignore[return-value]
        asked = self.get_retry_after(response) or 0.0
        try:
            if response.status in _MOVED:
                where = str(response.headers.get("Location")).partition("?")[0]
                raise GithubException(response.status, {"message": f"it moved to {where}"})
            if asked > _LONGEST_WAIT:
                raise RateLimitExceededExceedsMaxWait(response.status, None, None, None, wait=asked)
            return super().increment(*args, **options)  # type: ignore[return-value]
        except MaxRetryError as error:
            kind = GithubException if response.status in _NO_ANSWER else RateLimitExceededException
            raise kind(response.status) from error
        finally:
            response.drain_conn()  # gives the connection back

    def sleep_for_retry(self, response: BaseHTTPResponse) -> bool:
        if asked := self.get_retry_after(response):
            self.wait(asked)
        return bool(asked)

    def _sleep_backoff(self) -> None:
        if (backoff := self.get_backoff_time()) > 0:
            self.wait(backoff)


@dataclass(frozen=True)
class Client:
    """A repository (`owner/name`); ``redact`` removes secrets from everything published."""

    hub: Github
    repo: Repository
    name: str
    redact: Redact = unchanged
    wait: Callable[[float], None] = time.sleep

    def send(self, method: str, path: str, content: object = None) -> Any:
        url = self.repo.url + path
        return self.repo.requester.requestJsonAndCheck(method, url, input=content)[1]

    def listing(self, path: str, repository: str = "", **wanted: str) -> Iterator[Any]:
        """All pages of a list of this repository or of another ``repository``."""
        top = self.repo.url.removesuffix(self.name) + (repository or self.name)
        url: str | None = f"{top}{path}?{urlencode({'per_page': 100, **wanted})}"
        while url is not None:
            headers, page = self.repo.requester.requestJsonAndCheck("GET", url)
            yield from page
            links = parse_header_links(headers.get("link", ""))
            url = next((link["url"] for link in links if link.get("rel") == "next"), None)

    def create_idempotent(self, create: Callable[[], T], find: Callable[[], T | None]) -> T:
        """Retry a creation whose answer was lost, unless ``find`` finds it; at most three tries."""
        for pause in _PAUSES:
            try:
                return create()
            except AnswerLost:
                self.wait(pause)
                if (found := find()) is not None:
                    return found
        return create()

    def query(self, what: str, query: str, permission: str = "", **variables: str) -> Any:
        """The data that GraphQL answers; it is asked again if its answer was lost."""

        def ask() -> Any:
            with asking(what, permission):
                return self.repo.requester.graphql_query(query, variables)[1]["data"]

        return self.create_idempotent(ask, lambda: None)

    @cached_property
    def login(self) -> str:
        what = "say whose token this is"
        try:
            with asking(what):
                return self.hub.get_user().login
        except Refused as refused:
            if refused.status != HTTPStatus.FORBIDDEN:  # a job's own token may not ask this way
                raise
        with suppress(Refused):
            return str(self.query(what, "query { viewer { login } }")["viewer"]["login"])
        return ACTIONS

    def may_write(self, account: str) -> bool:
        """Whether ``account`` may push: maintainers may, triagers may not."""
        with suppress(NotFound), asking(f"say what {account} may do", "metadata: read"):
            return self.repo.get_collaborator_permission(account) in ("write", "admin")
        return False


def connect(
    environ: Mapping[str, str],
    token: str = "",
    *,
    redact: Redact = unchanged,
    wait: Callable[[float], None] = time.sleep,
) -> Client:
    """``token`` overrides the environment's. Raises UsageError without one, or a repository."""
    name, token, url = _access(environ, token)
    host = urlsplit(url).hostname or ""
    has_secondary_limits = host == urlsplit(PUBLIC_API).hostname or host.endswith(".ghe.com")
    # PyGithub logs every refusal and retry; we report them as errors and notes.
    logging.getLogger("github").setLevel(logging.WARNING)
    hub = Github(
        auth=Auth.Token(token),
        base_url=url,
        timeout=30,
        user_agent=f"skillopt-ci/{__version__}",
        per_page=100,
        retry=Retry(
            wait=wait,
            total=5,
            backoff_factor=1.0,
            backoff_jitter=0.5 if wait is time.sleep else 0.0,
            allowed_methods=frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"}),
            status_forcelist=[*_MOVED, 429, *_NO_ANSWER],
            max_rate_limit_wait=_LONGEST_WAIT,
        ),
        seconds_between_requests=0,
        seconds_between_writes=1 if has_secondary_limits else 0,
        lazy=True,
    )
    ask = hub.requester.requestJson

    def ask_for_json(*args: Any, **options: Any) -> tuple[int, dict[str, Any], str]:
        """PyGithub takes a proxy's page for an object, and fails at what is none or cut off."""
        status, headers, text = ask(*args, **options)
        found = None
        with suppress(ValueError):
            found = json.loads(text)
        if status >= HTTPStatus.BAD_REQUEST:
            raise GithubException(status, found, headers)
        if text and found is None:
            raise InvalidJSONError(text)
        return status, headers, text

    hub.requester.requestJson = ask_for_json  # type: ignore[method-assign]
    return Client(hub, hub.get_repo(name), name, redact, wait)


def same_text(one: str | None, other: str) -> bool:
    """Whether the texts are equal but for line ends and trimming, which GitHub changes."""
    return (one or "").replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()

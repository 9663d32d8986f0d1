"""When a request to GitHub is sent again, and how long that is waited for.

PyGithub retries creations after a server error (which doubles comments) and edits never. Here it
is the other way round: what may be repeated is, and a creation only if GitHub says that it did
not look at it (rate limits). `once` repeats creations after having looked.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from github.GithubException import RateLimitExceededExceedsMaxWait
from github.GithubRetry import GithubRetry
from urllib3.response import BaseHTTPResponse

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

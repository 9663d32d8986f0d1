"""Failures of one try of a call that may pass, and how long a server asks to be left alone."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from skillopt_ci.errors import InfrastructureError


class TransientFailure(InfrastructureError):
    """One try failed for a reason that may pass; ``retry_after`` is in seconds, if asked for.

    ``overloaded`` says that the server had too much to do, by us or by all.
    """

    def __init__(
        self, message: str, *, retry_after: float | None = None, overloaded: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.overloaded = overloaded


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that a response's headers (names in lower case) ask to wait, None without a wish.

    ``now`` must be aware: it turns an HTTP date into a distance, never below 0.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    return _until(value, now) if value and seconds is None else seconds


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(http_date: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    # A date in "-0000" (or without a zone) comes back naive; HTTP dates are UTC by definition.
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())

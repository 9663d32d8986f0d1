"""One call by a provider's own client library, its failures in our terms.

The libraries of OpenAI and Anthropic come from one generator and fail alike.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from skillopt_ci.model.keys import redact
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.model.transient import TransientFailure, retry_after_seconds

LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class SdkErrors:
    """A library's exceptions: a status that is no success, and no connection."""

    status: type[Exception]
    connection: type[Exception]


async def called(
    call: Callable[[], Awaitable[bytes]],
    errors: SdkErrors,
    timeout: float,
    secrets: Iterable[str],
    where: str,
) -> bytes | ServerError:
    """The body of the answer to ``call`` from ``where``, or its error, without ``secrets``.

    Raises :class:`TransientFailure` if there is no answer within ``timeout`` seconds, or no
    connection. The library is to know no timeout of its own: to it, whoever hangs up was too slow.
    """
    try:
        async with asyncio.timeout(timeout):
            return await call()
    except errors.status as error:
        return _server_error(error, tuple(secrets))
    except TimeoutError as error:
        raise TransientFailure(f"no answer within {timeout:g} s") from error
    except errors.connection as error:
        found = redact(_reason(error), secrets)
        raise TransientFailure(f"the connection failed: {found} ({where})") from error


def _reason(error: BaseException) -> str:
    """What lies behind the library's own words, as far as it says anything."""
    cause = error.__cause__
    return str(error) if cause is None else str(cause) or _reason(cause)


def _server_error(error: Any, secrets: Iterable[str]) -> ServerError:
    body = error.body
    # Google puts its errors into a list of one, Anthropic's library leaves the envelope on.
    found = body[0] if isinstance(body, list) and body else body
    fields = found if isinstance(found, Mapping) else {"message": found}
    inner = fields.get("error")
    fields = inner if isinstance(inner, Mapping) else fields
    message = fields.get("message") or (json.dumps(body, default=str) if body else "")
    return ServerError(
        status=error.status_code,
        message=redact(" ".join(str(message).split()), secrets)[:LONGEST_MESSAGE],
        code=str(fields.get("code") or _cause(fields.get("details"))),
        type=str(fields.get("type") or ""),
        param=str(fields.get("param") or ""),
        retry_after=retry_after_seconds(error.response.headers, datetime.now(UTC)),
    )


def _cause(details: object) -> str:
    """Anthropic's stable name for what went wrong."""
    return str(details.get("error_code") or "") if isinstance(details, Mapping) else ""

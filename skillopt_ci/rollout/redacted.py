"""What came of work on a task, without the secrets that an agent may have come across."""

import io
import tarfile
from dataclasses import replace

from skillopt_ci.model.middleware import redacted_message
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.rollout.work import Worked


def redacted_work(worked: Worked, redact: Redact) -> Worked:
    """``worked`` as it may be kept, graded, recorded and shown to the optimizer.

    It is done before grading, so that a kept attempt is graded as a fresh one is.
    """
    if redact is unchanged:
        return worked
    attempt = worked.attempt
    clean = replace(
        attempt,
        messages=tuple(redacted_message(one, redact) for one in attempt.messages),
        response=redact(attempt.response),
        trace=redact(attempt.trace),
        artifacts=redacted_tar(attempt.artifacts, redact),
    )
    return replace(worked, attempt=clean, reason=redact(worked.reason))


def redacted_tar(archive: bytes, redact: Redact) -> bytes:
    """The tar with the secrets taken out of its files; the very same bytes where there are none.

    Names of files and what is compressed in them stay as they are.
    """
    if not archive or _redacted(archive, redact) == archive:
        return archive
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            content = old.extractfile(member) if member.isreg() else None
            if content is None:
                new.addfile(member)
                continue
            clean = _redacted(content.read(), redact)
            member.size = len(clean)
            new.addfile(member, io.BytesIO(clean))
    return buffer.getvalue()


def _redacted(content: bytes, redact: Redact) -> bytes:
    """Bytes that are no UTF-8 pass through as they are."""
    return redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

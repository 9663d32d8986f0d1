"""The event that started the job, read from its payload."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_ci.errors import UsageError


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request as the payload shows it; its head is pinned to what was there then."""

    number: int
    head_sha: str
    head_ref: str
    from_fork: bool


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in the conversation of an issue or a pull request."""

    id: int
    number: int
    body: str
    on_pull_request: bool
    open: bool


@dataclass(frozen=True, slots=True)
class Event:
    """What happened: ``actor`` did it. Parts that the event does not have are empty."""

    name: str
    action: str = ""
    ref: str = ""
    deleted: bool = False
    actor: str = ""
    actor_is_bot: bool = False
    label: str = ""
    pull: Pull | None = None
    comment: Comment | None = None


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _User(_Part):
    login: str = ""
    type: str = ""


class _Repository(_Part):
    full_name: str


class _Side(_Part):
    sha: str
    ref: str
    repo: _Repository | None = None


class _Pull(_Part):
    number: int
    head: _Side
    base: _Side


class _Issue(_Part):
    number: int
    state: str = "open"
    pull_request: dict[str, Any] | None = None


class _Comment(_Part):
    id: int
    body: str | None = None


class _Label(_Part):
    name: str = ""


class _Payload(_Part):
    action: str = ""
    ref: str | None = None
    deleted: bool = False
    sender: _User = _User()
    label: _Label = _Label()
    pull_request: _Pull | None = None
    issue: _Issue | None = None
    comment: _Comment | None = None


def read_event(name: str, file: Path) -> Event:
    """Read the payload of the event called ``name``.

    Raises UsageError if it is not what GitHub sends.
    """
    try:
        payload = _Payload.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        why = _where(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"the payload of the event {name!r} cannot be read: {why}") from error
    return Event(
        name=name,
        action=payload.action,
        ref=payload.ref or "",
        deleted=payload.deleted,
        actor=payload.sender.login,
        actor_is_bot=payload.sender.type == "Bot",
        label=payload.label.name,
        pull=None if payload.pull_request is None else _pull(payload.pull_request),
        comment=_comment(payload.issue, payload.comment),
    )


def _pull(pull: _Pull) -> Pull:
    # without a repository the fork was deleted
    from_fork = pull.head.repo is None or pull.head.repo != pull.base.repo
    return Pull(pull.number, pull.head.sha, pull.head.ref, from_fork)


def _comment(issue: _Issue | None, comment: _Comment | None) -> Comment | None:
    if issue is None or comment is None:
        return None
    return Comment(
        id=comment.id,
        number=issue.number,
        body=comment.body or "",
        on_pull_request=issue.pull_request is not None,
        open=issue.state == "open",
    )


def _where(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"

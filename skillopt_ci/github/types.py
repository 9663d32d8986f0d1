"""The values that the functions of this folder take and return."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Reaction = Literal["+1", "-1", "eyes", "rocket", "confused"]
Conclusion = Literal["success", "failure", "neutral", "cancelled", "skipped", "action_required"]
MergeMethod = Literal["merge", "squash", "rebase"]
Permission = Literal["none", "read", "write", "admin"]


class Change(StrEnum):
    """What keeping something came to."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DECLINED = "declined"
    """Left alone: a person closed the pull request and its branch still stands."""
    NOTHING = "nothing"
    """There is nothing to propose: the branch has no commit that base lacks."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as it stands."""

    number: int
    title: str
    author: str
    open: bool
    merged: bool
    draft: bool
    head_sha: str
    head_repository: str | None
    """`owner/name`; None if the fork was deleted."""
    base_repository: str
    labels: tuple[str, ...] = ()

    @property
    def from_fork(self) -> bool:
        """Whether its head is not in this repository: nothing in it can be trusted."""
        return self.head_repository != self.base_repository


@dataclass(frozen=True, slots=True)
class WantedPullRequest:
    """How the one rolling pull request of a run is to look."""

    head: str
    """Short name of the skills branch, `skillopt/<run>`."""
    base: str
    title: str
    body: str
    draft: bool = False
    """Open it as a draft. A draft is made ready when this is False; what a person made ready is
    never made a draft again."""
    labels: tuple[str, ...] = ()
    """Added where missing; other labels are left alone."""


@dataclass(frozen=True, slots=True)
class KeptPullRequest:
    """The pull request after it was kept, and notes on what GitHub would not do to it."""

    pull_request: PullRequest | None
    change: Change
    notes: tuple[str, ...] = ()


class Merging(StrEnum):
    """What asking for a merge came to."""

    MERGED = "merged"
    SCHEDULED = "scheduled"
    """GitHub merges it by itself once everything that protects base is satisfied."""
    WITHHELD = "withheld"
    """GitHub would neither merge nor schedule it; the note says why."""


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """The answer to a request to merge, with GitHub's reason if it was withheld."""

    merging: Merging
    note: str = ""


@dataclass(frozen=True, slots=True)
class CommentRef:
    """Names a comment: of the conversation (`issue`) or on a line of the diff (`review`)."""

    kind: Literal["issue", "review"]
    id: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request. ``body`` is untrusted text."""

    ref: CommentRef
    author: str
    by_bot: bool
    body: str
    url: str
    created_at: str
    """UTC, ISO 8601."""
    path: str | None = None
    line: int | None = None
    """Line of the file at the newest commit; None if the line is gone or there is none."""
    commit: str | None = None
    thread: int | None = None
    """Id of the comment that began the thread, for comments on a line."""


@dataclass(frozen=True, slots=True)
class KeptComment:
    """A comment of our own after it was kept."""

    id: int
    url: str
    change: Change


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark of a check on lines of a file; lines count from 1."""

    path: str
    start_line: int
    end_line: int
    level: Literal["notice", "warning", "failure"]
    message: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class WantedCheck:
    """A check on a commit as it is to look. Without a conclusion it is in progress."""

    name: str
    head_sha: str
    title: str
    summary: str
    conclusion: Conclusion | None = None
    annotations: tuple[Annotation, ...] = ()
    details_url: str = ""


@dataclass(frozen=True, slots=True)
class KeptCheck:
    """A check after it was kept; tokens of people can only set a commit status instead."""

    kind: Literal["check_run", "status"]
    url: str
    change: Change

"""What skillopt-ci asks of a code host, in its own values.

Everything that "keeps" something is an upsert: asking twice is like asking once, two jobs may
ask at the same time, and nothing is written that is already there. Every method raises
`failure.Refused` (a permission, a setting, a locked conversation: the message says what to
grant) or `failure.Unavailable` (network, rate limit, server); nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

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
    url: str
    title: str
    body: str
    author: str
    open: bool
    merged: bool
    draft: bool
    locked: bool
    head_ref: str
    head_sha: str
    head_repository: str | None
    """`owner/name`; None if the fork was deleted."""
    base_ref: str
    base_sha: str
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


@dataclass(frozen=True, slots=True)
class ReviewNote:
    """What a person with write access said about the skill. ``body`` is untrusted text."""

    ref: CommentRef
    author: str
    body: str
    """The comment; without its leading `/skillopt note` if it came as one."""
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
class ChangedFile:
    """A file that a pull request changes."""

    path: str
    status: str
    """As GitHub says it: added, removed, modified, renamed, …"""
    previous_path: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that a pull request changes; GitHub lists no more than 3,000."""

    files: tuple[ChangedFile, ...]
    complete: bool
    """False if there are more than are listed: then take every file as changed."""


class Forge(Protocol):
    """The code host of one repository."""

    @property
    def repository(self) -> str:
        """The repository's `owner/name`."""

    def login(self) -> str:
        """Return the account that the token speaks for."""

    def pull_request(self, number: int) -> PullRequest:
        """Return a pull request; NotFound if there is none of that number."""

    def open_pull_request(self, head: str, base: str) -> PullRequest | None:
        """Return the open pull request of our branch ``head``, None if there is none.

        That into ``base`` if there are several.
        """

    def keep_pull_request(self, wanted: WantedPullRequest) -> KeptPullRequest:
        """Open or bring up to date the pull request of a branch.

        One that a person closed stays closed (`DECLINED`) until they open it again or delete its
        branch; after a merge, or on a new branch of the same name, a new one is opened.
        """

    def merge(
        self, number: int, head_sha: str, method: MergeMethod = "merge", title: str = ""
    ) -> MergeOutcome:
        """Have GitHub merge a pull request as soon as its protection allows, if still at head."""

    def keep_comment(self, number: int, body: str) -> KeptComment:
        """Post or edit our one comment that begins with the same line as ``body``.

        That first line is the marker and must be an HTML comment.
        """

    def keep_check(self, wanted: WantedCheck) -> KeptCheck:
        """Create or complete the check of that name on that commit."""

    def review_notes(self, number: int, path: str) -> tuple[ReviewNote, ...]:
        """Return, oldest first, what people with write access said about the file ``path``.

        These are comments on lines of its diff and `/skillopt note …` in the conversation.
        """

    def answer(self, number: int, note: ReviewNote, body: str) -> KeptComment:
        """Post or edit our one answer to a note; ``body`` begins with a marker of its own."""

    def react(self, comment: CommentRef, reaction: Reaction) -> None:
        """Put a reaction under a comment; a second time changes nothing."""

    def permission_of(self, login: str) -> Permission:
        """Return what an account may do here; maintain counts as write, triage as read."""

    def changed_files(self, number: int) -> ChangedFiles:
        """Return the files that a pull request changes."""

    def file_at(self, path: str, ref: str) -> bytes | None:
        """Return a regular file at a commit (also a fork's, by hash); None if there is none."""

    def dispatch(self, event: str, payload: Mapping[str, object]) -> None:
        """Start the workflows that listen for `repository_dispatch` of that type."""


def may_write(permission: Permission) -> bool:
    """Say whether someone with ``permission`` may push."""
    return permission in ("write", "admin")

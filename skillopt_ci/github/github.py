"""GitHub as a `Forge`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from skillopt_ci.github import checks, client, comments, pull_requests
from skillopt_ci.github.client import Access, Client, Patience, asking, connect
from skillopt_ci.github.types import (
    ChangedFiles,
    CommentRef,
    KeptCheck,
    KeptComment,
    KeptPullRequest,
    MergeMethod,
    MergeOutcome,
    Permission,
    PullRequest,
    Reaction,
    ReviewNote,
    WantedCheck,
    WantedPullRequest,
)
from skillopt_ci.redaction import Redact, unchanged


class GitHubForge:
    """A repository on GitHub or GitHub Enterprise Server; see `Forge` for what each method does."""

    def __init__(self, client: Client, redact: Redact = unchanged) -> None:
        self._client = client
        self._redact = redact

    @classmethod
    def open(
        cls, access: Access, patience: Patience | None = None, redact: Redact = unchanged
    ) -> "GitHubForge":
        """Build the forge of a repository; nothing is sent yet, and no secret ever will be."""
        return cls(connect(access, patience), redact)

    @property
    def repository(self) -> str:
        return self._client.name

    @cached_property
    def _login(self) -> str:
        return client.login(self._client)

    def login(self) -> str:
        return self._login

    def pull_request(self, number: int) -> PullRequest:
        return pull_requests.value(pull_requests.read(self._client, number))

    def open_pull_request(self, head: str, base: str) -> PullRequest | None:
        return pull_requests.open_of(self._client, head, base)

    def keep_pull_request(self, wanted: WantedPullRequest) -> KeptPullRequest:
        title, body = self._redact(wanted.title), self._redact(wanted.body)
        return pull_requests.keep(self._client, replace(wanted, title=title, body=body))

    def merge(
        self, number: int, head_sha: str, method: MergeMethod = "merge", title: str = ""
    ) -> MergeOutcome:
        return pull_requests.merge(self._client, number, head_sha, method, self._redact(title))

    def keep_comment(self, number: int, body: str) -> KeptComment:
        return comments.keep(self._client, self._login, number, self._redact(body))

    def keep_check(self, wanted: WantedCheck) -> KeptCheck:
        annotations = tuple(
            replace(one, message=self._redact(one.message), title=self._redact(one.title))
            for one in wanted.annotations
        )
        title, summary = self._redact(wanted.title), self._redact(wanted.summary)
        clean = replace(wanted, title=title, summary=summary, annotations=annotations)
        return checks.keep_check(self._client, self._login, clean)

    def review_notes(self, number: int, path: str) -> tuple[ReviewNote, ...]:
        return comments.notes(self._client, self._login, number, path)

    def answer(self, number: int, note: ReviewNote, body: str) -> KeptComment:
        return comments.answer(self._client, self._login, number, note, self._redact(body))

    def react(self, comment_ref: CommentRef, reaction: Reaction) -> None:
        comments.react(self._client, comment_ref, reaction)

    def permission_of(self, login: str) -> Permission:
        return client.permission_of(self._client, login)

    def changed_files(self, number: int) -> ChangedFiles:
        return pull_requests.changed(self._client, number)

    def file_at(self, path: str, ref: str) -> bytes | None:
        return pull_requests.at(self._client, path, ref)

    def dispatch(self, event: str, payload: Mapping[str, object]) -> None:
        with asking(f"dispatch {event}", "contents: write"):
            content = {"event_type": event, "client_payload": dict(payload)}
            self._client.send("POST", "/dispatches", content)

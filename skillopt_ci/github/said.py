"""Comments as GitHub lists them, of the conversation and on lines alike.

PyGithub's own objects would fetch each comment once more to learn that it is no reply.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.forge import CommentRef

READ = "pull-requests: read"
_FOLDERS = {"issue": "issues", "review": "pulls"}


@dataclass(frozen=True, slots=True)
class Said:
    """A comment; the text is untrusted."""

    ref: CommentRef
    author: str
    by_bot: bool
    body: str
    url: str
    created_at: str
    path: str | None = None
    line: int | None = None
    commit: str | None = None
    reply_to: int | None = None

    @property
    def resource(self) -> str:
        """Where the API has it, below the repository."""
        return resource(self.ref)


def resource(ref: CommentRef) -> str:
    """Return where the API has a comment, below the repository."""
    return f"/{_FOLDERS[ref.kind]}/comments/{ref.id}"


def in_conversation(client: Client, number: int) -> Iterator[Said]:
    """Yield the comments of a conversation, oldest first."""
    with asking(f"list the comments of #{number}", READ):
        for data in client.listing(f"/issues/{number}/comments"):
            yield issue_comment(data)


def on_lines(client: Client, number: int) -> Iterator[Said]:
    """Yield the comments on lines of a pull request, oldest first."""
    with asking(f"list the review comments of #{number}", READ):
        for data in client.listing(f"/pulls/{number}/comments"):
            yield review_comment(data)


def issue_comment(data: dict[str, Any]) -> Said:
    """Return a comment of the conversation."""
    return Said(CommentRef("issue", data["id"]), **_common(data))


def review_comment(data: dict[str, Any]) -> Said:
    """Return a comment on a line; GitHub leaves out what a comment does not have."""
    return Said(
        CommentRef("review", data["id"]),
        **_common(data),
        path=data["path"],
        line=data.get("line"),
        commit=data["commit_id"],
        reply_to=data.get("in_reply_to_id"),
    )


def _common(data: dict[str, Any]) -> dict[str, Any]:
    author = data["user"] or {"login": "ghost", "type": "User"}
    return {
        "author": author["login"],
        "by_bot": author["type"] == "Bot",
        "body": data["body"] or "",
        "url": data["html_url"],
        "created_at": data["created_at"],
    }

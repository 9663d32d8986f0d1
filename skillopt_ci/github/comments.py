"""Our own comments, each known by the hidden marker in its first line.

Two jobs may create the same comment at once: both then find both, the older one stays and gets
the text, the younger one goes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from skillopt_ci.github.client import (
    BODY,
    Client,
    NotFound,
    asking,
    clip_text,
    create_once,
    permission_of,
    same_text,
)
from skillopt_ci.github.types import (
    Change,
    CommentRef,
    KeptComment,
    Reaction,
    ReviewNote,
    may_write,
)

# Comments as GitHub lists them, of the conversation and on lines alike.

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


WRITE = "pull-requests: write"


def keep(client: Client, me: str, number: int, body: str) -> KeptComment:
    """Keep a comment of the conversation of pull request ``number``."""

    def mine() -> list[Said]:
        return [each for each in in_conversation(client, number) if is_mine(each, me, body)]

    def create() -> Said:
        with asking(f"comment on #{number}", WRITE):
            content = {"body": clip_text(body, BODY)}
            return issue_comment(client.send("POST", f"/issues/{number}/comments", content))

    return keep_one(client, body, mine, create)


def keep_one(
    client: Client, body: str, mine: Callable[[], list[Said]], create: Callable[[], Said]
) -> KeptComment:
    """Keep the one comment that ``mine`` finds, made by ``create`` if there is none.

    Raises ValueError if ``body`` does not begin with a hidden marker.
    """
    if not marker(body).startswith("<!--"):
        raise ValueError(f"a comment of ours begins with a hidden marker, not {marker(body)!r}")
    found, change = mine(), Change.UNCHANGED
    if not found:
        made = create_once(create, lambda: next(iter(mine()), None), client.patience.wait)
        found, change = mine() or [made], Change.CREATED
    oldest, *younger = sorted(found, key=lambda each: each.ref.id)
    if not same_text(oldest.body, clip_text(body, BODY)):
        _edit(client, oldest, body)
        change = Change.UPDATED if change == Change.UNCHANGED else change
    for duplicate in younger:
        _delete(client, duplicate)
    return KeptComment(oldest.ref.id, oldest.url, change)


def is_mine(comment: Said, me: str, body: str) -> bool:
    """Say whether ``comment`` is ours and begins with the marker that ``body`` begins with."""
    return comment.author == me and marker(comment.body) == marker(body)


def marker(body: str) -> str:
    """Return the first line of a comment."""
    return body.partition("\n")[0].strip()


def react(client: Client, ref: CommentRef, reaction: Reaction) -> None:
    """Put a reaction under a comment; GitHub keeps one of each kind."""
    with asking("react to a comment", WRITE):
        client.send("POST", f"{resource(ref)}/reactions", {"content": reaction})


def _edit(client: Client, comment: Said, body: str) -> None:
    with asking("edit a comment", WRITE):
        client.send("PATCH", comment.resource, {"body": clip_text(body, BODY)})


def _delete(client: Client, comment: Said) -> None:
    try:
        with asking("delete a comment that was posted twice", WRITE):
            client.send("DELETE", comment.resource)
    except NotFound:
        return


# What people say in review, and our answers.

_NOTE = re.compile(r"/skillopt[ \t]+note\b[ \t]*")


def notes(client: Client, me: str, number: int, path: str) -> tuple[ReviewNote, ...]:
    """Return what people with write access said about ``path``, oldest first."""
    lines = (each for each in on_lines(client, number) if each.path == path)
    words = (each for each in in_conversation(client, number) if _NOTE.match(each.body))
    people = [each for each in (*lines, *words) if not each.by_bot and each.author != me]
    authors = {each.author for each in people}
    trusted = {author for author in authors if may_write(permission_of(client, author))}
    heard = [_note(each) for each in people if each.author in trusted]
    by_age = sorted(heard, key=lambda note: (note.created_at, note.ref.id))
    return tuple(note for note in by_age if note.body)


def answer(client: Client, me: str, number: int, note: ReviewNote, body: str) -> KeptComment:
    """Keep our one answer to a note: in its thread, or in the conversation."""
    if note.ref.kind == "issue":
        return keep(client, me, number, body)
    thread = note.thread or note.ref.id

    def mine() -> list[Said]:
        replies = (each for each in on_lines(client, number) if each.reply_to == thread)
        return [each for each in replies if is_mine(each, me, body)]

    def create() -> Said:
        with asking(f"answer a review comment of #{number}", WRITE):
            place = f"/pulls/{number}/comments/{thread}/replies"
            return review_comment(client.send("POST", place, {"body": clip_text(body, BODY)}))

    return keep_one(client, body, mine, create)


def _note(heard: Said) -> ReviewNote:
    spoken = heard.ref.kind == "issue"
    return ReviewNote(
        ref=heard.ref,
        author=heard.author,
        body=(_NOTE.sub("", heard.body, count=1) if spoken else heard.body).strip(),
        url=heard.url,
        created_at=heard.created_at,
        path=heard.path,
        line=heard.line,
        commit=heard.commit,
        thread=None if spoken else heard.reply_to or heard.ref.id,
    )

"""Comments: our own, each with a hidden marker in its first line, and others'.

If two jobs create the same comment at once, both update the older comment and delete the newer one.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from skillopt_ci.errors import LostRace
from skillopt_ci.github.client import Client, NotFound, asking, same_text
from skillopt_ci.github.types import Comment, Reaction

_READ, _WRITE = "pull-requests: read", "pull-requests: write"
_OURS = "<!-- skillopt-ci:"
#: Followed by what ends a line for the command's reader, too, such as U+2028.
_NOTE = re.compile(r"/skillopt[ \t]+note(?=[ \t-\r\x1c-\x1e\x85\u2028\u2029]|$)[ \t]*")
_RUN = re.compile(r"/actions/runs/(\d+)\)</sub>\s*$")


def keep_comment(
    client: Client, number: int, body: str, *, thread: int | None = None, new: bool = True
) -> None:
    """Post or edit our comment with the marker of ``body``; unless ``new``, only edit it.

    It stands in the conversation, or in a ``thread`` of the diff. Raises LostRace if both end with
    a link to the workflow run that made them and ours is older.
    """
    text = client.redact(body)
    marker = _first_line(text)
    if not marker.startswith("<!--"):
        # any comment of this author with the same first line would be edited, or deleted as a twin
        raise ValueError(f"a comment of ours begins with a hidden marker, not {marker!r}")

    def mine() -> list[Comment]:
        return [
            one
            for one in _listed(client, number, "issues" if thread is None else "pulls")
            if one.thread == thread
            and one.author == client.login
            and _first_line(one.body) == marker
        ]

    def create() -> Comment:
        replies = f"/pulls/{number}/comments/{thread}/replies"
        place = f"/issues/{number}/comments" if thread is None else replies
        with asking(f"comment on #{number}", _WRITE):
            return _comment(client.send("POST", place, {"body": text}))

    if not (found := mine()) and not new:
        return
    if not found:
        made = client.create_idempotent(create, lambda: next(iter(mine()), None))
        found = mine() or [made]
    newest = max(run_of(one.body) for one in found)
    if 0 < run_of(text) < newest:
        raise LostRace(f"the comment on #{number} stays: the newer workflow run {newest} wrote it")
    oldest, *younger = sorted(found, key=lambda one: one.id)
    if not same_text(oldest.body, text):
        with asking("edit a comment", _WRITE):
            client.send("PATCH", _resource(oldest), {"body": text})
    for duplicate in younger:
        with suppress(NotFound), asking("delete a comment that was posted twice", _WRITE):
            client.send("DELETE", _resource(duplicate))


def react(client: Client, comment: int, reaction: Reaction) -> None:
    """Add a reaction to a comment of a conversation; GitHub keeps one of each kind."""
    with asking("react to a comment", _WRITE):
        client.send("POST", f"/issues/comments/{comment}/reactions", {"content": reaction})


def review_notes(client: Client, number: int, path: str) -> tuple[Comment, ...]:
    """Notes on the file ``path`` by people with write access, oldest first.

    They are comments on lines of its diff, and what follows `/skillopt note` in the conversation.
    """
    lines = [one for one in _listed(client, number, "pulls") if one.path == path]
    spoken = [
        replace(one, body=_NOTE.sub("", one.body, count=1))
        for one in _listed(client, number, "issues")
        if _NOTE.match(one.body)
    ]
    # The token may be a person's: what we wrote ourselves is told by its marker.
    people = [one for one in (*lines, *spoken) if not (one.by_bot or one.body.startswith(_OURS))]
    trusted = {author for author in {one.author for one in people} if client.may_write(author)}
    notes = [replace(one, body=one.body.strip()) for one in people if one.author in trusted]
    return tuple(
        sorted((one for one in notes if one.body), key=lambda one: (one.created_at, one.id))
    )


def _first_line(body: str) -> str:
    return body.partition("\n")[0].strip()


def run_of(body: str) -> int:
    """The workflow run in the link that ends a text of an evaluation, or 0."""
    return int(found[1]) if (found := _RUN.search(body)) else 0


def _resource(comment: Comment) -> str:
    return f"/{'issues' if comment.kind == 'issue' else 'pulls'}/comments/{comment.id}"


def _listed(client: Client, number: int, part: Literal["issues", "pulls"]) -> Iterator[Comment]:
    """The comments in the conversation (``issues``) or on lines of the diff (``pulls``)."""
    what = "comments" if part == "issues" else "review comments"
    with asking(f"list the {what} of #{number}", _READ):
        yield from map(_comment, client.listing(f"/{part}/{number}/comments"))


def _comment(data: dict[str, Any]) -> Comment:
    author = data["user"] or {"login": "ghost", "type": "User"}
    return Comment(
        id=data["id"],
        author=author["login"],
        by_bot=author["type"] == "Bot",
        body=data["body"] or "",
        url=data["html_url"],
        created_at=data["created_at"],
        path=data.get("path"),
        line=data.get("line"),
        thread=(data.get("in_reply_to_id") or data["id"]) if "path" in data else None,
    )

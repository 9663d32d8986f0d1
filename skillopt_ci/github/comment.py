"""Our own comments, each known by the hidden marker in its first line.

Two jobs may create the same comment at once: both then find both, the older one stays and gets
the text, the younger one goes.
"""

from collections.abc import Callable

from skillopt_ci.github import said
from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.failure import NotFound
from skillopt_ci.github.forge import Change, CommentRef, KeptComment, Reaction
from skillopt_ci.github.once import create_once
from skillopt_ci.github.said import Said
from skillopt_ci.github.texts import BODY, clip_text, same_text

WRITE = "pull-requests: write"


def keep(client: Client, me: str, number: int, body: str) -> KeptComment:
    """Keep a comment of the conversation of pull request ``number``."""

    def mine() -> list[Said]:
        return [each for each in said.in_conversation(client, number) if is_mine(each, me, body)]

    def create() -> Said:
        with asking(f"comment on #{number}", WRITE):
            content = {"body": clip_text(body, BODY)}
            return said.issue_comment(client.send("POST", f"/issues/{number}/comments", content))

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
        client.send("POST", f"{said.resource(ref)}/reactions", {"content": reaction})


def _edit(client: Client, comment: Said, body: str) -> None:
    with asking("edit a comment", WRITE):
        client.send("PATCH", comment.resource, {"body": clip_text(body, BODY)})


def _delete(client: Client, comment: Said) -> None:
    try:
        with asking("delete a comment that was posted twice", WRITE):
            client.send("DELETE", comment.resource)
    except NotFound:
        return

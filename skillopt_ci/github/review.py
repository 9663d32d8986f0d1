"""What people say in review, and our answers."""

import re

from skillopt_ci.github import comment, said
from skillopt_ci.github.account import permission_of
from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.comment import WRITE
from skillopt_ci.github.forge import KeptComment, ReviewNote, may_write
from skillopt_ci.github.said import Said
from skillopt_ci.github.texts import BODY, clip_text

_NOTE = re.compile(r"/skillopt[ \t]+note\b[ \t]*")


def notes(client: Client, me: str, number: int, path: str) -> tuple[ReviewNote, ...]:
    """Return what people with write access said about ``path``, oldest first."""
    lines = (each for each in said.on_lines(client, number) if each.path == path)
    words = (each for each in said.in_conversation(client, number) if _NOTE.match(each.body))
    people = [each for each in (*lines, *words) if not each.by_bot and each.author != me]
    authors = {each.author for each in people}
    trusted = {author for author in authors if may_write(permission_of(client, author))}
    heard = [_note(each) for each in people if each.author in trusted]
    by_age = sorted(heard, key=lambda note: (note.created_at, note.ref.id))
    return tuple(note for note in by_age if note.body)


def answer(client: Client, me: str, number: int, note: ReviewNote, body: str) -> KeptComment:
    """Keep our one answer to a note: in its thread, or in the conversation."""
    if note.ref.kind == "issue":
        return comment.keep(client, me, number, body)
    thread = note.thread or note.ref.id

    def mine() -> list[Said]:
        replies = (each for each in said.on_lines(client, number) if each.reply_to == thread)
        return [each for each in replies if comment.is_mine(each, me, body)]

    def create() -> Said:
        with asking(f"answer a review comment of #{number}", WRITE):
            place = f"/pulls/{number}/comments/{thread}/replies"
            return said.review_comment(client.send("POST", place, {"body": clip_text(body, BODY)}))

    return comment.keep_one(client, body, mine, create)


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

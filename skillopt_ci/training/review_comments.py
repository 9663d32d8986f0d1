"""Reviewers' notes: people's comments on the skill, given to one step's analysts as guidance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.records import State
from skillopt_ci.messages import fenced
from skillopt_ci.prompts import library
from skillopt_ci.sanitize import one_line
from skillopt_ci.util import user_text, write_atomically

#: Most notes given to one step; the rest wait for the next step.
MOST_NOTES = 20
_MOST_CHARACTERS = 4_000
RECORDED_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ReviewerNote:
    """A person's review comment; ``text`` is untrusted; only comments on a line have a ``path``."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$")]
    author: Annotated[str, Field(max_length=100)]
    text: Annotated[str, Field(max_length=1_000_000)]
    path: str = ""
    line: Annotated[int | None, Field(ge=1)] = None
    url: Annotated[str, Field(max_length=2_000)] = ""


def unheard(notes: Iterable[ReviewerNote], state: State | None) -> tuple[ReviewerNote, ...]:
    """The notes not yet given to a step, as many as one step takes."""
    heard = set() if state is None else set(state.heard_notes)
    return tuple(note for note in notes if note.id not in heard and note.text.strip())[:MOST_NOTES]


def render_notes(notes: Sequence[ReviewerNote]) -> str:
    """The notes as a section of an analyst's prompt; empty without notes."""
    shown: list[str] = []
    for note in notes:
        line = "" if note.line is None else f", line {note.line}"
        place = f" on `{one_line(note.path, 200)}`{line}" if note.path else ""
        left_out = len(note.text) - _MOST_CHARACTERS
        more = f"\n[… {left_out} characters left out …]" if left_out > 0 else ""
        shown += [
            f"Note `{note.id}` by {one_line(note.author, 60)}{place}:",
            fenced(note.text[:_MOST_CHARACTERS] + more, "text"),
        ]
    parts = (library.REVIEWERS, library.NOTE_IDS, *shown)
    return library.section("Reviewer Guidance", *parts) if shown else ""


class _Notes(BaseModel, extra="forbid", frozen=True, strict=True):
    version: Literal[1] = 1
    notes: tuple[ReviewerNote, ...]


def write_notes(notes: Iterable[ReviewerNote], file: Path) -> None:
    """Write notes for ``step --notes``; raises UsageError if that fails."""
    text = _Notes(notes=tuple(notes)).model_dump_json(indent=1)
    # Dataclasses are not validated on creation, and an unreadable file would stop every step.
    _Notes.model_validate_json(text)
    write_atomically(file, text + "\n")


def read_notes(file: Path) -> tuple[ReviewerNote, ...]:
    """Read notes, oldest first; raises UsageError if the file is invalid."""
    try:
        return _Notes.model_validate_json(user_text(file)).notes
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(
            f"{file}: not reviewers' notes: {where}: {first['msg']}",
            hint='Expected: {"version": 1, "notes": [{"id": "1", "author": "…", "text": "…"}]}',
        ) from error

"""Applies edits to the skill one after the other, and reports the outcome of each."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from textwrap import dedent, indent
from typing import Annotated, Literal

from pydantic import BeforeValidator, StringConstraints

from skillopt_ci.skill import regions
from skillopt_ci.skill.document import ended, fence_closed, frontmatter_end, line_ending

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

#: Characters of words, including combining accents, and those that join their parts: don't, 12.50.
_IN_WORD = r"[\w\u0300-\u036f]"
_JOINS = r"['’.,-]"


def clean(text: str) -> str:
    """``text`` with line feeds and tabs as the only control characters."""
    return _UNPRINTABLE.sub("", regions.LINE_BREAK.sub("\n", text))


_CLEANED = BeforeValidator(lambda text: clean(text) if isinstance(text, str) else text)
#: Text from a model: any, and one that must not be empty.
Text = Annotated[str, _CLEANED]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), _CLEANED]

# Headings, fences and tags are lines of their own; they, comments and items end a paragraph.
_LINE = r"(?:#{1,6}[ \t]|```|~~~|</?[\w-]+(?:[ \t][^<>\n]*)?>[ \t]*$).*"
_WRAPPED = rf"\n(?![ \t]*+(?:{_LINE}|<!--|[-*+][ \t]|\d+[.)][ \t]))[ \t]*+\S.*"
# A line further in than the first line of a block, perhaps after blank lines.
_DEEPER = r"\n(?:[ \t]*+\n)*+(?P=margin)[ \t]++\S.*"
#: A line of its own or a paragraph; its ``unit`` also has the deeper lines below, like sub-items.
_BLOCK = re.compile(
    r"^(?P<margin>[ \t]*+)(?=.*\S)"
    rf"(?=(?P<unit>{_LINE}|.*(?:{_DEEPER}|{_WRAPPED})*))"
    rf"(?:{_LINE}|.*(?:{_WRAPPED})*)",
    re.MULTILINE,
)
_LINE_OF_CODE = re.compile(r"^(?P<margin>[ \t]*+)(?P<unit>.*\S.*)", re.MULTILINE)
#: What cannot become part of the text above it.
_APART = re.compile(r"\s*\Z|\n[ \t]*(?:\n|[-*+][ \t])")

Source = Literal["failure", "success"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One proposed change; ``op`` is kept as the model wrote it, to report unknown ones.

    ``support_count`` is how many trajectories support it, according to the model; it has no weight.
    """

    op: Word
    target: Text = ""
    content: Text = ""
    source_type: Source = "failure"
    support_count: int = 1
    merge_level: int = 0
    #: The reviewers' notes that it follows, according to the model.
    note_ids: tuple[str, ...] = ()


class EditStatus(StrEnum):
    """The outcome of an edit, under SkillOpt's names."""

    APPENDED = "applied_append"
    APPENDED_BEFORE_REGION = "applied_append_before_protected_region"
    INSERTED = "applied_insert_after"
    INSERTED_AT_END = "applied_insert_after_fallback_append"
    INSERTED_BEFORE_REGION = "applied_insert_after_fallback_before_protected_region"
    REPLACED = "applied_replace"
    DELETED = "applied_delete"
    PROTECTED = "skipped_protected_region"
    REPLACE_NO_TARGET = "skipped_replace_missing_target"
    REPLACE_NOT_FOUND = "skipped_replace_target_not_found"
    DELETE_NO_TARGET = "skipped_delete_missing_target"
    DELETE_NOT_FOUND = "skipped_delete_target_not_found"
    EMPTY = "skipped_empty_content"
    UNKNOWN_OP = "skipped_unknown_op"
    REFUSED = "skipped_guard"

    @property
    def applied(self) -> bool:
        return self.value.startswith("applied")


@dataclass(frozen=True, slots=True)
class EditReport:
    edit: Edit
    status: EditStatus
    reason: str = ""


#: Why the second text may not follow the first; None if it may.
Refuse = Callable[[str, str], str | None]

_Outcome = tuple[str, EditStatus]


def permit(_before: str, _after: str) -> None:
    """Refuse nothing."""


def apply_edits(
    text: str, edits: Sequence[Edit], refuse: Refuse = permit
) -> tuple[str, tuple[EditReport, ...]]:
    """The edited document and one report per edit; raises for no text.

    An edit is skipped if ``refuse`` objects to its result. CRLF is kept if all lines end with it.
    """
    ending = line_ending(text)
    current = text.replace(ending, "\n")
    reports: list[EditReport] = []
    for edit in edits:
        changed, status, reason = current, EditStatus.UNKNOWN_OP, ""
        if (change := _CHANGES.get(edit.op.strip().lower())) is not None:
            content = regions.strip_markers(regions.LINE_BREAK.sub("\n", edit.content))
            changed, status = change(current, edit.target.replace("\r\n", "\n"), content)
        if status.applied:
            changed = ended(changed)
            if regions.protected_parts(changed) != regions.protected_parts(current):
                status = EditStatus.PROTECTED
            elif (objection := refuse(current, changed)) is not None:
                status, reason = EditStatus.REFUSED, objection
            else:
                current = changed
        reports.append(EditReport(edit, status, reason))
    return current.replace("\n", ending), tuple(reports)


def split_at_region(text: str) -> tuple[str, str]:
    found = (text.find(region.start, frontmatter_end(text)) for region in regions.REGIONS)
    start = min((one for one in found if one >= 0), default=len(text))
    return text[:start], text[start:]


def _insert(text: str, target: str, content: str, *, at_end: bool) -> _Outcome:
    if not content.strip():
        return text, EditStatus.EMPTY
    place = _locate(text, target)
    if place is EditStatus.PROTECTED:
        return text, place
    if isinstance(place, regions.Span) and not at_end:
        return _insert_below(text, place, content), EditStatus.INSERTED
    # Append as a separate paragraph, before the first marked region if there is one.
    before, region = split_at_region(text)
    added = "\n\n".join(filter(None, (fence_closed(before).rstrip(), content.strip(), region)))
    if at_end:
        return added, EditStatus.APPENDED_BEFORE_REGION if region else EditStatus.APPENDED
    return added, EditStatus.INSERTED_BEFORE_REGION if region else EditStatus.INSERTED_AT_END


def _insert_below(text: str, place: regions.Span, content: str) -> str:
    """``content`` on lines of its own below the block of ``place``, indented like that block."""
    *_, line = (one for one in _LINE_OF_CODE.finditer(text) if one.start() < place.end)
    so_far = text[: line.end()]
    in_code = fence_closed(so_far, line["margin"]) != so_far
    if fence_closed(text) != text:  # blocks in blocks, all with the same fence, or one left open
        in_code = text.count("```", 0, place.end) % 2 == 1
    blocks = (_LINE_OF_CODE if in_code else _BLOCK).finditer(text, frontmatter_end(text))
    held = (one for one in blocks if one.end() > place.start and one.start() < place.end)
    above = max(held, key=lambda one: one.end("unit"))
    point = above.end("unit")
    rows_of_table = text[:point].rstrip().endswith("|") and content.lstrip().startswith("|")
    content = indent(dedent(content).strip(), above["margin"])
    before = "" if rows_of_table else "\n"
    after = "" if _APART.match(text, point) else "\n"
    return f"{text[:point]}\n{before}{content}{after}{text[point:]}"


def _replace(text: str, target: str, content: str, verb: str = "replace") -> _Outcome:
    if not regions.strip_markers(target).strip():
        return text, EditStatus(f"skipped_{verb}_missing_target")
    place = _locate(text, target)
    if not isinstance(place, regions.Span):
        return text, place or EditStatus(f"skipped_{verb}_target_not_found")
    old = text[place.start : place.end]
    if content := content.strip():  # keep the white space around the old text
        lead, trail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
        content = f"{lead}{content}{trail}"
    return text[: place.start] + content + text[place.end :], EditStatus(f"applied_{verb}")


_CHANGES: Mapping[str, Callable[[str, str, str], _Outcome]] = {
    "append": partial(_insert, at_end=True),
    "insert_after": partial(_insert, at_end=False),
    "replace": _replace,
    "delete": lambda text, target, _: _replace(text, target, "", verb="delete"),
}


def _locate(text: str, target: str) -> regions.Span | Literal[EditStatus.PROTECTED] | None:
    """The first occurrence of ``target`` outside protected parts; PROTECTED if all are inside.

    Failing that, looks without markers, then without outer white space, but not inside a word.
    """
    bare = regions.strip_markers(target)
    left = rf"(?<!{_IN_WORD})(?<!\w{_JOINS})" if re.match(r"\s*\w", bare) else ""
    right = rf"(?!{_JOINS}?{_IN_WORD})" if re.search(r"\w\s*\Z", bare) else ""
    alone = f"{left}{re.escape(bare.strip())}{right}"
    for pattern in (re.escape(target), re.escape(bare), alone):
        wanted = re.compile(pattern.replace("\\\n", "\r?\n"))  # line ends may be mixed
        if bare.strip() and wanted.search(text):
            position = 0
            for span in (*regions.protected_spans(text), regions.Span(len(text), len(text))):
                if match := wanted.search(text, position, span.start):
                    return regions.Span(*match.span())
                position = span.end
            return EditStatus.PROTECTED
    return None

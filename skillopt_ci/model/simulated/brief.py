"""What the optimizer is asked: its prompts read back into values."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skillopt_ci.chat import Message
from skillopt_ci.model.simulated.sections import Section, sections

_STAGE = re.compile(r"^\W*Stage:\W*(\w+)", re.MULTILINE)
_LIMIT = re.compile(r"at most (?:L\s*=\s*)?(\d+)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_TURN = re.compile(r"^\[(system|user|assistant|agent)\][ \t]*", re.MULTILINE)
_POOL_LINE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_SUPPORT = re.compile(r"\bsupport=(\d+)\W*$")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One conversation as an analyst is shown it."""

    references: tuple[str, ...]
    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class AnalystBrief:
    """An analyst's assignment; ``limit`` is the most edits it may propose."""

    skill: str
    limit: int
    previous: str
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True)
class PatchEdit:
    """An edit as it stands in a merge prompt."""

    op: str
    target: str
    content: str
    support: int
    source: str


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A line of the ranking prompt's edit pool."""

    index: int
    description: str
    support: int


def stage_of(messages: Sequence[Message]) -> str:
    """Return the stage that the system prompt names, empty if none."""
    system = "\n".join(m.content for m in messages if m.role == "system")
    found = _STAGE.search(system)
    return found[1] if found else ""


def first_prompt(messages: Sequence[Message]) -> str:
    """Return the first user message: on a retry, later ones only complain."""
    return next((m.content for m in messages if m.role == "user"), "")


def read_analyst_brief(prompt: str) -> AnalystBrief:
    """Read an analyst's user message, leniently: what is missing is empty."""
    parts = sections(prompt)
    limit = _LIMIT.search(_titled(parts, "Edits Budget").text)
    return AnalystBrief(
        skill=_titled(parts, "Current Skill").data,
        limit=int(limit[1]) if limit else 4,
        previous=_titled(parts, "Previous Steps").text,
        trajectories=tuple(_trajectories(parts)),
    )


def read_merge_brief(prompt: str) -> tuple[PatchEdit, ...]:
    """Read a merge's user message: all edits in the order given."""
    parts = sections(prompt)
    listed = [part for part in parts if part.title.startswith(("Patches to merge", "Group "))]
    edits = (edit for part in listed for edit in _edits(_parsed(part.data), part.title))
    return tuple(edits)


def read_ranking_brief(prompt: str) -> tuple[tuple[PoolEntry, ...], int]:
    """Read a ranking's user message: the pool and how many edits to select."""
    pool = _titled(sections(prompt), "Edit pool").data
    limits = re.findall(r"[Ss]elect at most (\d+)", prompt)
    entries = tuple(
        PoolEntry(int(index), text, int(support[1]) if (support := _SUPPORT.search(text)) else 1)
        for index, text in _POOL_LINE.findall(pool)
    )
    return entries, int(limits[-1]) if limits else len(entries)


def _titled(parts: Sequence[Section], title: str) -> Section:
    empty = Section(2, title, "", "")
    return next((part for part in parts if part.title.startswith(title)), empty)


def _trajectories(parts: Sequence[Section]) -> Iterator[Trajectory]:
    starts = [i for i, part in enumerate(parts) if part.title.startswith("Trajectory ")]
    for start, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        block = parts[start:end]
        hidden = _titled(block, "Hidden Reference").text
        turns = _turns(_titled(block, "Conversation").text)
        answers = [
            found for role, text in turns if role != "system" for found in _ANSWER.findall(text)
        ]
        yield Trajectory(
            references=tuple(re.findall(r"^- (.*\S)", hidden, re.MULTILINE)),
            prompt=next((text for role, text in turns if role == "user"), ""),
            answer=answers[-1].strip() if answers else "",
        )


def _turns(conversation: str) -> list[tuple[str, str]]:
    pieces = _TURN.split(conversation)[1:]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return []


def _edits(value: object, title: str) -> Iterator[PatchEdit]:
    """Find everything in ``value`` that looks like an edit, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from _edits(item, title)
    elif isinstance(value, dict) and "op" in value:
        support = value.get("support_count", 1)
        yield PatchEdit(
            op=str(value["op"]),
            target=str(value.get("target") or ""),
            content=str(value.get("content") or ""),
            support=support if isinstance(support, int) else 1,
            source=str(value.get("source_type") or _source(title)),
        )
    elif isinstance(value, dict):
        for item in value.values():
            yield from _edits(item, title)


def _source(title: str) -> str:
    return "success" if "success" in title else "failure"

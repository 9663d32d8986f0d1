"""What the optimizer is asked: its prompts read back into values."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from skillopt_ci.messages import Message
from skillopt_ci.model.simulated.sections import Section, sections

#: More edits than anybody proposes.
UNLIMITED = 1_000

_STAGE = re.compile(r"^\W*Stage:\W*(\w+)", re.MULTILINE)
_LIMIT = re.compile(r"at most (?:L\s*=\s*)?(\d+)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_TURN = re.compile(r"^\[(system|user|assistant|agent|tool)\][ \t]*", re.MULTILINE)
_REASON = re.compile(r"^(?:current )?failure reason: (.*)", re.MULTILINE | re.IGNORECASE)
_POOL_LINE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_NOTE = re.compile(r"Note `([^`]+)` by ")
_LISTS = ("Patches to merge", "Group ", "Suggestions to carry out")
_SUPPORT = re.compile(r"\bsupport=(\d+)\W*$")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One conversation as an analyst is shown it; ``reason`` says why it failed."""

    references: tuple[str, ...]
    prompt: str
    answer: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AnalystBrief:
    """An analyst's assignment; ``limit`` is the most edits it may propose.

    ``wishes`` are reviewers' notes by their ids.
    """

    skill: str
    limit: int
    previous: str
    trajectories: tuple[Trajectory, ...]
    wishes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonBrief:
    """The assignment at an epoch's end: what the current skill fails at, regressions first.

    ``guidance`` has the lines of the last epoch's.
    """

    skill: str
    guidance: tuple[str, ...]
    failures: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True)
class PatchEdit:
    """An edit as it stands in a merge prompt."""

    op: str
    target: str
    content: str
    support: int
    source: str
    note_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list in a prompt; ``group`` is the source that its section names."""

    value: dict[str, object]
    group: str

    def text(self, key: str) -> str:
        """Return a text of the entry, empty if it is missing."""
        return str(self.value.get(key) or "")

    @property
    def support(self) -> int:
        """How many trajectories back it."""
        support = self.value.get("support_count", 1)
        return support if isinstance(support, int) else 1

    @property
    def note_ids(self) -> tuple[str, ...]:
        """The reviewers' notes that it follows."""
        found = self.value.get("note_ids")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def source(self) -> str:
        """Where it comes from."""
        return self.text("source_type") or self.group


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A line of the ranking prompt's edit pool; ``wished`` if reviewers asked for it."""

    index: int
    description: str
    support: int
    wished: bool = False


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
    assignment = _titled(parts, ("Edits Budget", "Suggestions Budget", "Update Format")).text
    limit = _LIMIT.search(assignment)
    return AnalystBrief(
        skill=_titled(parts, "Current Skill").data,
        limit=int(limit[1]) if limit else UNLIMITED if assignment else 4,
        previous=_titled(parts, "Previous Steps").text,
        trajectories=tuple(_trajectories(parts)),
        wishes=dict(_wishes(_titled(parts, "Reviewer Guidance"))),
    )


def read_comparison_brief(prompt: str) -> ComparisonBrief:
    """Read the user message of an epoch's end."""
    parts = sections(prompt)
    starts = [i for i, part in enumerate(parts) if part.title.startswith("Task ")]
    blocks = [parts[start:end] for start, end in pairwise((*starts, len(parts)))]
    told = (_trajectory(block, "Conversation under the current") for block in blocks)
    failures = tuple(one for one in told if _failed(one))
    guidance = _titled(parts, "Previous Guidance").data.splitlines()
    rules = tuple(line for line in guidance if line.startswith("- "))
    return ComparisonBrief(_titled(parts, "Current Skill").data, rules, failures)


def read_merge_brief(prompt: str) -> tuple[PatchEdit, ...]:
    """Read a merge's user message: all edits in the order given."""
    return tuple(
        PatchEdit(
            item.text("op"),
            item.text("target"),
            item.text("content"),
            item.support,
            item.source,
            item.note_ids,
        )
        for item in read_items(prompt, "op")
    )


def read_items(prompt: str, key: str) -> tuple[Item, ...]:
    """Read the lists of a merge's or a rewrite's user message: all entries that have ``key``."""
    listed = [part for part in sections(prompt) if part.title.startswith(_LISTS)]
    return tuple(
        Item(value, _source(part.title))
        for part in listed
        for value in _entries(_parsed(part.data), key)
    )


def read_skill(prompt: str) -> str:
    """Read the current skill out of any stage's user message."""
    return _titled(sections(prompt), "Current Skill").data


def read_ranking_brief(prompt: str) -> tuple[tuple[PoolEntry, ...], int]:
    """Read a ranking's user message: the pool and how many edits to select."""
    limits = re.findall(r"[Ss]elect at most (\d+)", prompt)
    wishes = _titled(sections(prompt), "Reviewers' Wishes").text
    wished = set(map(int, re.findall(r"\[(\d+)\]", wishes)))
    pool = read_pool(prompt, ("Edit pool", "Suggestion pool"))
    entries = tuple(replace(entry, wished=entry.index in wished) for entry in pool)
    return entries, int(limits[-1]) if limits else len(entries)


def read_pool(prompt: str, title: str | tuple[str, ...]) -> tuple[PoolEntry, ...]:
    """Read the numbered list in the section of this title."""
    pool = _titled(sections(prompt), title).data
    return tuple(
        PoolEntry(int(index), text, int(support[1]) if (support := _SUPPORT.search(text)) else 1)
        for index, text in _POOL_LINE.findall(pool)
    )


def _titled(parts: Sequence[Section], title: str | tuple[str, ...]) -> Section:
    empty = Section(2, "", "", "")
    return next((part for part in parts if part.title.startswith(title)), empty)


def _trajectories(parts: Sequence[Section]) -> Iterator[Trajectory]:
    starts = [i for i, part in enumerate(parts) if part.title.startswith("Trajectory ")]
    for start, end in pairwise((*starts, len(parts))):
        block = parts[start:end]
        yield _trajectory(block, "Conversation")


def _trajectory(block: Sequence[Section], conversation: str) -> Trajectory:
    hidden = _titled(block, "Hidden Reference").text
    turns = _turns(_titled(block, conversation).text)
    answers = [found for role, text in turns if role != "system" for found in _ANSWER.findall(text)]
    return Trajectory(
        references=tuple(re.findall(r"^- (.*\S)", hidden, re.MULTILINE)),
        prompt=next((text for role, text in turns if role == "user"), ""),
        answer=answers[-1].strip() if answers else "",
        reason=(_REASON.findall(block[0].text) or [""])[-1],
    )


def _failed(one: Trajectory) -> bool:
    return one.answer not in one.references if one.answer else bool(one.reason)


def _wishes(guidance: Section) -> Iterator[tuple[str, str]]:
    for introduction, text in guidance.blocks:
        name = _NOTE.match(introduction)
        if name:
            yield name[1], text


def _turns(conversation: str) -> list[tuple[str, str]]:
    pieces = _TURN.split(conversation)[1:]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return []


def _entries(value: object, key: str) -> Iterator[dict[str, object]]:
    """Find every object with ``key`` in ``value``, however deep."""
    if isinstance(value, dict) and key in value:
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _entries(item, key)


def _source(title: str) -> str:
    return "success" if "success" in title else "failure"

"""Parses the optimizer's prompts back into values; missing parts are empty."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from skillopt_ci.messages import Message

#: More edits than any analyst proposes.
UNLIMITED = 1_000

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"#{2,6} +(.*\S)")
_STAGE = re.compile(r"^[^\w\n]*Stage:\W*(\w+)", re.MULTILINE)
_LIMIT = re.compile(r"at most (?:L\s*=\s*)?(\d+)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_TURN = re.compile(r"^\[(system|user|assistant|agent|tool)\][ \t]*", re.MULTILINE)
_POOL_LINE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_SUPPORT = re.compile(r"\bsupport=(\d+)\W*$")
_LISTS = ("Patches to merge", "Group ", "Suggestions to carry out")


@dataclass(slots=True)
class Section:
    title: str = ""
    lines: list[str] = field(default_factory=list)
    fenced: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()

    @property
    def data(self) -> str:
        return "\n".join(self.fenced).strip("\n") or self.text


@dataclass(frozen=True, slots=True)
class Trajectory:
    references: tuple[str, ...]
    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class AnalystBrief:
    """An analyst's assignment; ``limit`` is the most edits that it may propose."""

    skill: str
    limit: int
    previous: str
    trajectories: tuple[Trajectory, ...]


def sections(prompt: str) -> list[Section]:
    found, fence = [Section()], ""
    for line in prompt.split("\n"):
        here, stripped = found[-1], line.strip()
        marker = _FENCE.match(line)
        if fence and len(stripped) >= len(fence) and set(stripped) == {fence[0]}:
            fence = ""
        elif fence:
            here.lines.append(line)
            here.fenced.append(line)
        elif marker:
            fence = marker[1]
        elif heading := _HEADING.fullmatch(stripped):
            found.append(Section(heading[1]))
        else:
            here.lines.append(line)
    return found[1:]


def stage_of(messages: Sequence[Message]) -> str:
    found = _STAGE.search("\n".join(m.content for m in messages if m.role == "system"))
    return found[1] if found else ""


def first_prompt(messages: Sequence[Message]) -> str:
    return next((m.content for m in messages if m.role == "user"), "")


def read_analyst_brief(prompt: str) -> AnalystBrief:
    parts = sections(prompt)
    assignment = _titled(parts, "Edits Budget", "Suggestions Budget", "Update Format").text
    limit = _LIMIT.search(assignment)
    usual = UNLIMITED if assignment else 4
    return AnalystBrief(
        skill=_titled(parts, "Current Skill").data,
        limit=int(limit[1]) if limit else usual,
        previous=_titled(parts, "Previous Steps").text,
        trajectories=tuple(_trajectories(parts, "Trajectory ", "Conversation")),
    )


def read_failures(prompt: str) -> list[Trajectory]:
    told = _trajectories(sections(prompt), "Task ", "Conversation under the current")
    # Tasks without an answer are only mentioned in the prompt.
    return [one for one in told if one.answer and one.answer not in one.references]


def read_proposals(prompt: str, key: str) -> list[dict[str, Any]]:
    """Entries of a merge or rewrite; ``key`` is ``content``, ``instruction`` or ``new_skill``."""
    return [
        {
            "op": str(one.get("op") or one.get("type") or ""),
            "target": str(one.get("target") or ""),
            "content": str(one.get(key) or ""),
            "support_count": count if isinstance(count := one.get("support_count"), int) else 1,
            "source_type": str(one.get("source_type") or "")
            or ("success" if "success" in part.title else "failure"),
        }
        for part in sections(prompt)
        if part.title.startswith(_LISTS)
        for one in _objects(json.loads(part.data), "op" if key == "content" else key)
    ]


def read_section(prompt: str, title: str) -> str:
    return _titled(sections(prompt), title).data


def read_pool(prompt: str, *titles: str) -> dict[int, int]:
    return {
        int(index): int(support[1]) if (support := _SUPPORT.search(text)) else 1
        for index, text in _POOL_LINE.findall(_titled(sections(prompt), *titles).data)
    }


def _titled(parts: Iterable[Section], *titles: str) -> Section:
    return next((part for part in parts if part.title.startswith(titles)), Section())


def _trajectories(
    parts: Sequence[Section], heading: str, conversation: str
) -> Iterator[Trajectory]:
    starts = [i for i, part in enumerate(parts) if part.title.startswith(heading)]
    for start, end in pairwise((*starts, len(parts))):
        block = parts[start:end]
        pieces = _TURN.split(_titled(block, conversation).text)[1:]
        turns = list(zip(pieces[::2], pieces[1::2], strict=True))
        answers = [one for role, text in turns if role != "system" for one in _ANSWER.findall(text)]
        hidden = _titled(block, "Hidden Reference").text
        yield Trajectory(
            references=tuple(re.findall(r"^- (.*\S)", hidden, re.MULTILINE)),
            prompt=next((text for role, text in turns if role == "user"), ""),
            answer=answers[-1].strip() if answers else "",
        )


def _objects(value: object, key: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and key in value:
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _objects(item, key)

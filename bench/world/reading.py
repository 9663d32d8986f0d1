"""Requests read back into what the optimizer is asked, whoever's prompt it is."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

Kind = Literal[
    "target",
    "reflection",
    "analyst",
    "merge",
    "merge_final",
    "ranking",
    "slow_update",
    "meta_skill",
    "unknown",
]
Messages = Sequence[Mapping[str, str]]

_BLOCK = re.compile(r"^#+ (?:Trajectory|Task|Example) ", re.MULTILINE)
_LIMIT = re.compile(r"at most L=(\d+)")
_SELECT = re.compile(r"[Ss]elect (?:at most |the )(\d+)")
_POOL = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_SUPPORT = re.compile(r"\bsupport=(\d+)")
_SECTION = r"^## {}[^\n]*\n(.*?)(?=^## (?:{})|\Z)"
_NEXT = (
    "Edits Budget|Previous Steps|Optimizer Meta Skill|Failed Traj|Successful Traj|Reviewer"
    "|Previous Slow|Longitudinal|Patches to merge|Two pre-merged|Group|Edits? Pool|Edit pool"
    "|Current|Last Change|Comparison|Previous Guidance|Previous Epoch"
)


def kind_of(messages: Messages) -> Kind:
    """What sort of request ``messages`` is."""
    system, user = system_text(messages), prompt(messages)
    if user.startswith("Case "):
        return "target"
    signs: tuple[tuple[bool, Kind], ...] = (
        ("write a new instruction for the assistant" in user, "reflection"),
        ("slow_update_content" in system, "slow_update"),
        ("meta_skill_content" in system, "meta_skill"),
        ("Patches to merge" in user, "merge"),
        ("Group 1" in user, "merge_final"),
        (bool(re.search(r"^## Edits? [Pp]ool", user, re.MULTILINE)), "ranking"),
        ("Trajectories" in user, "analyst"),
    )
    return next((kind for holds, kind in signs if holds), "unknown")


def system_text(messages: Messages) -> str:
    """All system messages."""
    return "\n".join(one["content"] for one in messages if one["role"] in {"system", "developer"})


def prompt(messages: Messages) -> str:
    """The first user message: later ones only complain about a reply."""
    return next((one["content"] for one in messages if one["role"] == "user"), "")


def section(text: str, title: str) -> str:
    """The second-level section whose heading begins with ``title``, empty if there is none."""
    pattern = _SECTION.format(re.escape(title), _NEXT)
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def evidence(text: str, topics: Callable[[str], set[str]]) -> Counter[str]:
    """How many of the trajectories in ``text`` show each topic."""
    starts = [found.start() for found in _BLOCK.finditer(text)]
    blocks = (text[start:end] for start, end in pairwise([*starts, len(text)]))
    return Counter(topic for block in blocks for topic in topics(block))


def limit_of(text: str) -> int:
    """The most edits that an analyst may propose."""
    found = _LIMIT.search(text)
    return int(found[1]) if found else 4


def pool_of(text: str) -> tuple[list[tuple[int, str, int]], int]:
    """A ranking's pool (index, description, support) and how many are to be selected."""
    listed = section(text, "Edits Pool") or section(text, "Edit pool") or text
    entries = []
    for index, described in _POOL.findall(listed):
        support = _SUPPORT.search(described)
        entries.append((int(index), described, int(support[1]) if support else 1))
    wanted = _SELECT.findall(text)
    return entries, int(wanted[-1]) if wanted else len(entries)


def edits_of(text: str) -> list[dict[str, object]]:
    """Every edit in the JSON that ``text`` holds, in order."""
    return [edit for value in _values(text) for edit in _edits(value)]


def _values(text: str) -> Iterator[object]:
    decoder, position = json.JSONDecoder(), 0
    for found in re.finditer(r"^[\[{]", text, re.MULTILINE):
        if found.start() < position:
            continue
        try:
            value, position = decoder.raw_decode(text, found.start())
        except ValueError:
            continue
        yield value


def _edits(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict) and "op" in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _edits(inner)

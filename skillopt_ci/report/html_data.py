"""The texts that the skill had one after the other, and which of them each line came from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from skillopt_ci.ledger.records import Measurement, PatternRecord
from skillopt_ci.report.html_attempts import Recorded
from skillopt_ci.report.view import RunView


@dataclass(frozen=True, slots=True)
class Version:
    """A text of the skill. ``anchor`` is the section of the report that tells how it came about."""

    label: str
    text: str
    anchor: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive lines of the newest text that came with the same version (its index)."""

    origin: int
    first_line: int
    lines: tuple[str, ...]


def passages(versions: Sequence[Version]) -> tuple[Passage, ...]:
    """The newest text, divided by where its lines come from: a line is as old as it is unchanged.

    Lines are matched as diffs match them, version by version; a blank line belongs to the one
    before it. The last of ``versions`` is the newest. No version gives no passage.
    """
    origins = _origins([version.text.split("\n") for version in versions])
    if not versions:
        return ()
    lines = versions[-1].text.split("\n")
    if lines[-1] == "":
        lines, origins = lines[:-1], origins[:-1]
    for index, line in enumerate(lines[1:], start=1):
        if not line.strip():
            origins[index] = origins[index - 1]
    return tuple(_grouped(lines, origins))


def _origins(texts: Sequence[list[str]]) -> list[int]:
    """For each line of the last text the index of the text that brought it."""
    origins: list[int] = []
    before: list[str] = []
    for index, lines in enumerate(texts):
        found = [index] * len(lines)
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                found[block.b + offset] = origins[block.a + offset]
        origins, before = found, lines
    return origins


def _grouped(lines: Sequence[str], origins: Sequence[int]) -> Iterator[Passage]:
    start = 0
    for end in range(1, len(lines) + 1):
        if end == len(lines) or origins[end] != origins[start]:
            yield Passage(origins[start], start + 1, tuple(lines[start:end]))
            start = end


@dataclass(frozen=True, slots=True)
class Library:
    """Many similar texts in little room: each text as indices into the lines of all of them."""

    lines: tuple[str, ...]
    texts: tuple[tuple[int, ...], ...]


def library(texts: Sequence[str]) -> Library:
    """Store ``texts``; a text is its lines joined by line feeds."""
    known: dict[str, int] = {}
    stored = tuple(
        tuple(known.setdefault(line, len(known)) for line in text.split("\n")) for text in texts
    )
    return Library(tuple(known), stored)


# What is believed of single edits, by all comparisons of the run.


@dataclass(frozen=True, slots=True)
class EditEffect:
    """What an edit adds to the mean score, give or take, by what was measured up to ``step``.

    ``helpful`` is the probability that it adds anything.
    """

    step: int
    mean: float
    sd: float
    helpful: float


#: The effects of an edit, oldest first, by the step that proposed it and its number from 0.
Effects = Mapping[tuple[int, int], tuple[EditEffect, ...]]


def effect_text(mean: float, sd: float, helpful: float) -> str:
    """An effect in words: ``+0.042 ± 0.031, helps with 91 %``."""
    return f"{mean:+.3f} ± {sd:.3f}, helps with {helpful:.0%}".replace("%", " %")


# All that a report tells of: the whole record of a run, and the texts of its skill.


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with every step's evidence, the skill's ``versions`` oldest first (the last is now).

    ``candidates`` has the text before and after each candidate, by the anchor of its section; a
    candidate whose commits cannot be reached any more is missing there. ``attempts`` are those that
    this machine has on record, ``effects`` what is believed of single edits, ``first`` is the
    measurement that training began with.
    """

    run: RunView
    versions: tuple[Version, ...]
    candidates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    meta_skill: str = ""
    attempts: Recorded = field(default_factory=Recorded)
    effects: Effects = field(default_factory=dict)
    first: Measurement | None = None


# The failure patterns of a step, each once: analysts of several minibatches may name the same.


def failures(patterns: Iterable[PatternRecord]) -> tuple[PatternRecord, ...]:
    """Patterns of one description together, the most frequent first."""
    found: dict[str, PatternRecord] = {}
    for one in patterns:
        known = found.get(one.description)
        found[one.description] = one if known is None else _together(known, one)
    return tuple(sorted(found.values(), key=lambda one: -one.count))


def _together(one: PatternRecord, other: PatternRecord) -> PatternRecord:
    return PatternRecord(
        description=one.description,
        count=one.count + other.count,
        task_ids=tuple(dict.fromkeys((*one.task_ids, *other.task_ids))),
    )

"""The texts of the skill: where each passage of the newest is from, and what its rules changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import NamedTuple

from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.report.effects import Effect, Effects
from skillopt_ci.report.html_attempts import Recorded
from skillopt_ci.report.view import EventView, RunView


@dataclass(frozen=True, slots=True)
class Version:
    """A text of the skill. ``anchor`` is the section of the report that tells how it came about."""

    label: str
    text: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with every step's evidence, the skill's ``versions`` oldest first (the last is now).

    ``candidates`` has the text before and after each candidate, by the anchor of its section; a
    candidate whose commits cannot be reached any more is missing there. ``attempts`` are some of
    the ``count`` that this machine has on record, ``dates`` are the days of the run's first and its
    newest commit.
    """

    run: RunView
    versions: tuple[Version, ...]
    candidates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    meta_skill: str = ""
    attempts: Recorded = field(default_factory=dict)
    count: int = 0
    effects: Effects = field(default_factory=dict)
    dates: tuple[str, ...] = ()


class Rule(NamedTuple):
    """A rule of the newest text, with what it adds to the mean score by all that was measured."""

    words: str
    effect: Effect | None = None


class Learned(NamedTuple):
    """What one version brought to the newest text; ``view`` is its step, if that is known."""

    version: Version
    rules: tuple[Rule, ...]
    view: EventView | None = None


def learned(
    evidence: Evidence, views: Mapping[str, EventView], found: Iterable[tuple[int, Sequence[str]]]
) -> list[Learned]:
    """The rules in the passages that were ``found``, the versions that gained most first."""
    brought: dict[int, list[str]] = {}
    for origin, lines in found:
        brought.setdefault(origin, []).extend(line for line in lines if _says(line))
    told = []
    for origin, lines in brought.items():
        version = evidence.versions[origin]
        if not lines or not version.anchor:
            continue
        view, rules, shown = views.get(version.anchor), list[Rule](), set[str]()
        record = view.record if view else None
        edits = record.proposal.edits if isinstance(record, StepRecord) else ()
        for number, edit in enumerate(edits):
            own = {line.strip() for line in edit.content.split("\n")}
            if record and edit.applied and own & {line.strip() for line in lines}:
                shown |= own
                effect = evidence.effects.get((record.step, number))
                rules.append(Rule(edit.content.strip().removeprefix("- "), effect))
        if rest := [line for line in lines if line.strip() not in shown]:
            rules.append(Rule("\n".join(rest)))
        told.append(Learned(version, tuple(rules), view))
    return sorted(told, key=lambda one: -((one.view and one.view.gain) or 0.0))


def _says(line: str) -> bool:
    """Whether a line has something to tell a reader: it is not empty, and no mark of ours."""
    return bool(line.strip()) and not (line.startswith("<!--") and line.endswith("-->"))


def passages(texts: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The last of ``texts`` in runs of lines of one origin, each with the index of its text.

    A line is as old as it is unchanged, matched as diffs match them, text by text; a blank line
    belongs to the one before it.
    """
    origins: list[int] = []
    lines: list[str] = []
    for index, text in enumerate(texts):
        before, lines = lines, text.split("\n")
        found = [index] * len(lines)
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
            found[block.b : block.b + block.size] = origins[block.a : block.a + block.size]
        origins = found
    if lines and lines[-1] == "":
        lines.pop()
    for index, line in enumerate(lines[1:], start=1):
        if not line.strip():
            origins[index] = origins[index - 1]
    start = 0
    for end in range(1, len(lines) + 1):
        if end == len(lines) or origins[end] != origins[start]:
            yield origins[start], tuple(lines[start:end])
            start = end

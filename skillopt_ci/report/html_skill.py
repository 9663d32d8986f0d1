"""The texts of the skill: all of them in little room, and where each passage of the newest is from.

A passage is told with the change that brought it, and what that change did.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from skillopt_ci.ledger.records import EditRecord, Measurement, StepRecord
from skillopt_ci.report.html_attempts import Recorded
from skillopt_ci.report.view import RunView
from skillopt_ci.report.words import effect_text
from skillopt_ci.stats import Effect
from skillopt_ci.text import plural


@dataclass(frozen=True, slots=True)
class Version:
    """A text of the skill. ``anchor`` is the section of the report that tells how it came about."""

    label: str
    text: str
    anchor: str = ""


#: What an edit adds to the mean score, by what was measured up to a step: oldest first, by the step
#: that proposed the edit and its number from 0.
Effects = Mapping[tuple[int, int], tuple[tuple[int, Effect], ...]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with every step's evidence, the skill's ``versions`` oldest first (the last is now).

    ``candidates`` has the text before and after each candidate, by the anchor of its section; a
    candidate whose commits cannot be reached any more is missing there. ``attempts`` are those that
    this machine has on record, ``first`` is the measurement that training began with.
    """

    run: RunView
    versions: tuple[Version, ...]
    candidates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    meta_skill: str = ""
    attempts: Recorded = field(default_factory=Recorded)
    effects: Effects = field(default_factory=dict)
    first: Measurement | None = None


@dataclass(frozen=True, slots=True)
class Blame:
    """Consecutive lines of the newest text that came with one version.

    ``record`` is the step that brought them, if it was one. ``support`` says on how many attempts
    the edits stand whose text is in the passage, ``rules`` has their words and what was believed of
    each over time.
    """

    version: Version
    lines: tuple[str, ...]
    record: StepRecord | None = None
    support: str = ""
    rules: tuple[tuple[str, tuple[str, ...]], ...] = ()


def blame(evidence: Evidence) -> Iterator[Blame]:
    """Tell for every passage of the newest text where it came from."""
    steps = {f"step-{one.step}": one for one in evidence.run.steps if one.decision is not None}
    for origin, lines in passages([version.text for version in evidence.versions]):
        version = evidence.versions[origin]
        record = steps.get(version.anchor)
        if record is None:
            yield Blame(version, lines)
            continue
        shown = {line.strip() for line in lines if line.strip()}
        edits = {
            number: edit
            for number, edit in enumerate(record.proposal.edits)
            if edit.applied and shown & {line.strip() for line in edit.content.split("\n")}
        }
        support = _support([edit.support_count for edit in edits.values()])
        rules = tuple(_rules(record.step, edits, evidence.effects))
        yield Blame(version, lines, record, support, rules)


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


def _support(counts: Sequence[int]) -> str:
    if not counts:
        return ""
    most, least = max(counts), min(counts)
    seen = plural(most, "attempt") if most == least else f"{least} to {plural(most, 'attempt')}"
    return f"{plural(len(counts), 'edit')}, seen in {seen}{' each' if len(counts) > 1 else ''}"


def _rules(
    step: int, edits: Mapping[int, EditRecord], effects: Effects
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What was believed of each edit at several moments, the last one now; repetitions left out."""
    for number, edit in edits.items():
        told = [(effect_text(effect), after) for after, effect in effects.get((step, number), ())]
        # the first moment of each belief
        first = dict(reversed(told))
        if told:
            lines = (f"after step {after}: {text}" for text, after in reversed(first.items()))
            yield edit.content.strip(), tuple(lines)

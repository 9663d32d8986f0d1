"""The skill as it stands, each passage with the change that brought it and what that one did."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.records import EditRecord, StepRecord
from skillopt_ci.report.html_data import (
    Effects,
    Evidence,
    Passage,
    Version,
    effect_text,
    failures,
    passages,
)
from skillopt_ci.text import plural


@dataclass(frozen=True, slots=True)
class Blame:
    """A passage, the version that brought it, and, where that was a step, why and to what effect.

    ``effect`` is the step's score before and after, for all of its edits together. ``causes`` are
    the failures that its edits answer, ``fixed`` and ``broken`` the selection tasks whose outcome
    changed with the step. ``rules`` has for each edit whose text is in the passage its words and
    what was believed of it over time.
    """

    passage: Passage
    version: Version
    effect: str = ""
    causes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    support: str = ""
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    rules: tuple[tuple[str, tuple[str, ...]], ...] = ()


def blame(evidence: Evidence) -> tuple[Blame, ...]:
    """Tell for every passage of the newest text where it came from."""
    steps = {f"step-{record.step}": record for record in evidence.run.steps}
    return tuple(
        _blame(passage, evidence.versions, steps, evidence.effects)
        for passage in passages(evidence.versions)
    )


def _blame(
    passage: Passage,
    versions: Sequence[Version],
    steps: Mapping[str, StepRecord],
    effects: Effects,
) -> Blame:
    version = versions[passage.origin]
    record = steps.get(version.anchor)
    if record is None or record.decision is None:
        return Blame(passage, version)
    decision, patterns = record.decision, failures(record.proposal.patterns)
    effect = ""
    if decision.score_after is not None:
        effect = f"{decision.score_before:.3f} → {decision.score_after:.3f}"
    return Blame(
        passage,
        version,
        effect,
        tuple(f"{pattern.description} (×{pattern.count})" for pattern in patterns),
        tuple(dict.fromkeys(task for pattern in patterns for task in pattern.task_ids)),
        _support(passage, record),
        decision.fixed,
        decision.broken,
        tuple(_rules(passage, record, effects)),
    )


def _edits(passage: Passage, record: StepRecord) -> Iterator[tuple[int, EditRecord]]:
    """The edits, with their numbers, whose text is in the passage."""
    shown = {line.strip() for line in passage.lines if line.strip()}
    for number, edit in enumerate(record.proposal.edits):
        if edit.applied and shown & {line.strip() for line in edit.content.split("\n")}:
            yield number, edit


def _support(passage: Passage, record: StepRecord) -> str:
    """On how many attempts the edits stand whose text is in the passage."""
    counts = [edit.support_count for _, edit in _edits(passage, record)]
    if not counts:
        return ""
    most, least = max(counts), min(counts)
    seen = plural(most, "attempt") if most == least else f"{least} to {plural(most, 'attempt')}"
    return f"{plural(len(counts), 'edit')}, seen in {seen}{' each' if len(counts) > 1 else ''}"


def _rules(
    passage: Passage, record: StepRecord, effects: Effects
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What was believed of each edit at several moments, the last one now; repetitions left out."""
    for number, edit in _edits(passage, record):
        told = [
            (one.step, effect_text(one.mean, one.sd, one.helpful))
            for one in effects.get((record.step, number), ())
        ]
        # the first moment of each belief
        first = {text: step for step, text in reversed(told)}
        if told:
            lines = (f"after step {step}: {text}" for text, step in reversed(first.items()))
            yield edit.content.strip(), tuple(lines)

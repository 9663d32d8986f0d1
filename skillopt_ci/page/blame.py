"""The skill as it stands, each passage with the change that brought it and what that one did."""

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.page.evidence import Evidence
from skillopt_ci.page.versions import Passage, Version, passages
from skillopt_ci.report.figures import plural


@dataclass(frozen=True, slots=True)
class Blame:
    """A passage, the version that brought it, and, where that was a step, why and to what effect.

    ``effect`` is the step's score before and after, for all of its edits together. ``causes`` are
    the failures that its edits answer.
    """

    passage: Passage
    version: Version
    effect: str = ""
    causes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    support: str = ""


def blame(evidence: Evidence) -> tuple[Blame, ...]:
    """Tell for every passage of the newest text where it came from."""
    steps = {f"step-{record.step}": record for record in evidence.run.steps}
    return tuple(
        _blame(passage, evidence.versions, steps) for passage in passages(evidence.versions)
    )


def _blame(passage: Passage, versions: Sequence[Version], steps: dict[str, StepRecord]) -> Blame:
    version = versions[passage.origin]
    record = steps.get(version.anchor)
    if record is None or record.decision is None:
        return Blame(passage, version)
    decision, patterns = record.decision, record.proposal.patterns
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
    )


def _support(passage: Passage, record: StepRecord) -> str:
    """On how many attempts the edits stand whose text is in the passage."""
    shown = {line.strip() for line in passage.lines if line.strip()}
    counts = [
        edit.support_count
        for edit in record.proposal.edits
        if edit.applied and shown & {line.strip() for line in edit.content.split("\n")}
    ]
    if not counts:
        return ""
    most, least = max(counts), min(counts)
    seen = plural(most, "attempt") if most == least else f"{least} to {plural(most, 'attempt')}"
    return f"{plural(len(counts), 'edit')}, seen in {seen}{' each' if len(counts) > 1 else ''}"

"""Commit messages of an epoch's end, and what they say in words."""

from collections import Counter

from skillopt_ci.ledger.records import BoundaryRecord, Decision, SlowUpdateRecord
from skillopt_ci.report.arithmetic import arithmetic
from skillopt_ci.report.commit import (
    CommitText,
    arrow,
    exact,
    paragraphs,
    simulated_note,
    usage_trailers,
)
from skillopt_ci.report.figures import plural, score, usage_text
from skillopt_ci.sanitize import one_line


def boundary_proposed(record: BoundaryRecord) -> CommitText:
    """The candidate of an epoch's end, before it is measured."""
    return CommitText(
        subject=f"End of epoch {record.epoch}: {boundary_gist(record)}",
        body=paragraphs(*_evidence(record), simulated_note(record.simulated)),
        trailers=_trailers(record, "proposed", record.skill_after),
    )


def boundary_landed(record: BoundaryRecord, candidate: str | None, seconds: float) -> CommitText:
    """The end of an epoch with its verdict."""
    decision = record.decision
    if decision is None or candidate is None:
        return _plain(record, seconds)
    verb = "Merge" if decision.stays else "Revert"
    after = record.skill_after if decision.stays else record.skill_before
    return CommitText(
        subject=f"{verb} end of epoch {record.epoch} ({arrow(decision)}): {boundary_gist(record)}",
        body=paragraphs(
            "" if decision.stays else f"This reverts commit {candidate}.",
            f"Verdict: {decision.action}. {decision.reason}",
            arithmetic(decision),
            *_evidence(record),
            f"Used {usage_text(record.usage.usage())}.",
            simulated_note(record.simulated),
        ),
        trailers={
            **_trailers(record, decision.action, after),
            **_score_trailers(decision),
            "Skillopt-Seconds": f"{seconds:.1f}",
        },
    )


def boundary_reason(record: BoundaryRecord) -> str:
    """Why the epoch's end came out as it did, in words."""
    if record.decision is not None:
        return record.decision.reason
    slow, meta = record.slow_update, record.meta_skill
    if slow is not None:
        return _without_candidate(slow)
    if meta is None or meta.action == "skip_first_epoch":
        return "the first epoch has nothing to compare with"
    return f"notes refused: {meta.refused}" if meta.refused else boundary_gist(record)


def boundary_gist(record: BoundaryRecord) -> str:
    """What the optimizer had to say, in a few of its own words."""
    slow, meta = record.slow_update, record.meta_skill
    noted = meta is not None and bool(meta.content)
    if slow is None:
        return "notes for the optimizer" if noted else "no notes for the optimizer"
    if slow.action == "inject_placeholder":
        return "make room for guidance" if record.changed else "there is room for guidance"
    if slow.content:
        return one_line(slow.content.lstrip("#-*> "), 60)
    return "no new guidance, but notes for the optimizer" if noted else "no new guidance"


def categories(record: BoundaryRecord) -> str:
    """How many of the compared tasks fell into each category."""
    counts = Counter(pair.category for pair in record.pairs)
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.most_common())


def _plain(record: BoundaryRecord, seconds: float) -> CommitText:
    return CommitText(
        subject=f"End of epoch {record.epoch}: {boundary_gist(record)}",
        body=paragraphs(
            *_evidence(record),
            f"Used {usage_text(record.usage.usage())}.",
            simulated_note(record.simulated),
        ),
        trailers={
            **_trailers(record, record.action, record.skill_before),
            "Skillopt-Seconds": f"{seconds:.1f}",
        },
    )


def _evidence(record: BoundaryRecord) -> tuple[str, ...]:
    slow, meta = record.slow_update, record.meta_skill
    compared = (
        f"Compared on {plural(len(record.pairs), 'training task')}: {categories(record)}; "
        f"{score(record.previous_hard)} under the last epoch's skill, "
        f"{score(record.current_hard)} under this one's."
    )
    return (
        compared if record.pairs else "",
        f"Guidance: {one_line(slow.content, 600)}" if slow and slow.content else "",
        f"Why: {one_line(slow.reasoning, 600)}" if slow and slow.reasoning else "",
        f"Guidance refused: {one_line(slow.refused, 300)}" if slow and slow.refused else "",
        f"For the optimizer: {one_line(meta.content, 600)}" if meta and meta.content else "",
        f"Notes refused: {one_line(meta.refused, 300)}" if meta and meta.refused else "",
    )


def _without_candidate(slow: SlowUpdateRecord) -> str:
    if slow.refused:
        return f"guidance refused: {slow.refused}"
    if slow.action == "inject_placeholder":
        return "the skill has a place for guidance already"
    return "no new guidance"


def _trailers(record: BoundaryRecord, action: str, skill: str) -> dict[str, str]:
    return {
        "Skillopt-Step": str(record.step),
        "Skillopt-Epoch": str(record.epoch),
        "Skillopt-Epoch-End": "true",
        "Skillopt-Action": action,
        "Skillopt-Skill-Sha256": skill,
        "Skillopt-Config-Sha256": record.config_sha256,
        **usage_trailers(record.usage, record.simulated),
    }


def _score_trailers(decision: Decision) -> dict[str, str]:
    return {
        "Skillopt-Score-Before": exact(decision.score_before),
        "Skillopt-Score-After": exact(decision.score_after),
        "Skillopt-Tasks": str(decision.compared),
    }

"""What becomes of the texts that the optimizer wrote at an epoch's end.

The guard reads them first: of a refused one nothing is recorded but the reason.
"""

from dataclasses import replace

from skillopt_ci.ledger.records import MetaSkillRecord, SlowUpdateRecord
from skillopt_ci.progress import Note, Observer
from skillopt_ci.skill.regions import SLOW_UPDATE, region_text, with_region
from skillopt_ci.training.guard import GuardContext, refuse_document
from skillopt_ci.training.guidance import Written


def slow_record(
    skill: str, written: Written, guard: GuardContext, observer: Observer
) -> SlowUpdateRecord:
    """The guidance: none, the same as in ``skill`` or a refused one proposes nothing."""
    guidance = region_text(skill, SLOW_UPDATE) or ""
    if written.content in ("", guidance):
        return SlowUpdateRecord(
            action="no_content", previous_content=guidance, reasoning=written.reasoning
        )
    before, after = (with_region(skill, SLOW_UPDATE, one) for one in (guidance, written.content))
    refused = _refused("guidance", before, after, guard, observer)
    if refused:
        return SlowUpdateRecord(action="no_content", previous_content=guidance, refused=refused)
    return SlowUpdateRecord(
        action="propose",
        previous_content=guidance,
        content=written.content,
        reasoning=written.reasoning,
    )


def meta_record(
    memory: str, written: Written, guard: GuardContext, observer: Observer
) -> MetaSkillRecord:
    """The memory; it may speak to the optimizer, for which it is written."""
    if not written.content:
        return MetaSkillRecord(action="no_content", reasoning=written.reasoning)
    rules = guard.rules.model_copy(update={"optimizer_instructions": False, "max_words": 0})
    lenient = replace(guard, rules=rules)
    refused = _refused("memory", memory, written.content, lenient, observer)
    if refused:
        return MetaSkillRecord(action="no_content", refused=refused)
    return MetaSkillRecord(
        action="write_meta_skill", content=written.content, reasoning=written.reasoning
    )


def _refused(what: str, before: str, after: str, guard: GuardContext, observer: Observer) -> str:
    """Why the guard refuses the text; empty if it does not."""
    reason = refuse_document(before, after, guard)
    if reason:
        observer(Note(f"The optimizer's {what} is refused: {reason}.", level="warning"))
    return reason or ""

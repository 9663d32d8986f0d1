"""Screen: proposals that the guard refuses are dropped before they are merged with others.

Single edits pass: they are judged when they are applied, each by what it does to the document.
"""

from collections.abc import Iterable
from dataclasses import replace

from skillopt_ci.progress import Note, Observer
from skillopt_ci.skill.edits import Refuse
from skillopt_ci.training.patch import Item, Patch, Reflection, SkillCandidate, Suggestion


def screened(
    reflections: Iterable[Reflection[Item]], skill: str, refuse: Refuse, observer: Observer
) -> tuple[Reflection[Item], ...]:
    """Return the reflections without refused suggestions and documents, but with the reasons."""
    return tuple(_screened(one, skill, refuse, observer) for one in reflections)


def _screened(
    reflection: Reflection[Item], skill: str, refuse: Refuse, observer: Observer
) -> Reflection[Item]:
    judged = [(item, _reason(item, skill, refuse)) for item in reflection.patch.edits]
    reasons = tuple(reason for _, reason in judged if reason)
    if not reasons:
        return reflection
    for reason in reasons:
        observer(Note(f"A proposal is refused: {reason}.", level="warning"))
    kept = tuple(item for item, reason in judged if not reason)
    return replace(reflection, patch=Patch(kept, reflection.patch.reasoning), refused=reasons)


def _reason(item: Item, skill: str, refuse: Refuse) -> str | None:
    match item:
        case Suggestion():
            return refuse(skill, f"{item.title}\n{item.instruction}")
        case SkillCandidate():
            return refuse(skill, item.new_skill)
    return None

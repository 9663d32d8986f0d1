"""The simulated merges: duplicates joined, contradictions settled by support."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from skillopt_ci.model.simulated.brief import PatchEdit
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.skill_reading import subject
from skillopt_ci.model.simulated.temperament import Temperament


def merge_edits(
    edits: Sequence[PatchEdit], dice: Dice, temperament: Temperament
) -> dict[str, object]:
    """Return the merged patch: one edit for each subject, with the support of all it stands for."""
    joined = _joined(edits)
    kept = [
        edit
        for edit in joined
        if edit.support > 1 or dice.chance(f"keep {edit.content}", temperament.gullible)
    ]
    return {
        "reasoning": f"{len(edits)} proposed edits name {len(joined)} things; {len(kept)} stay.",
        "edits": [_as_json(edit) for edit in kept],
    }


def _joined(edits: Iterable[PatchEdit]) -> list[PatchEdit]:
    groups: dict[str, PatchEdit] = {}
    for edit in edits:
        key = _key(edit)
        known = groups.get(key)
        groups[key] = edit if known is None else _settled(known, edit)
    return list(groups.values())


def _key(edit: PatchEdit) -> str:
    """Return what the edit is about: a convention whatever its wording, else its own words."""
    about = subject(edit.content or edit.target)
    return about[0] if about else f"{edit.op} {edit.target} {edit.content}".casefold()


def _settled(first: PatchEdit, second: PatchEdit) -> PatchEdit:
    """Join two edits on one subject; where they contradict each other the better backed wins."""
    if _stance(first) == _stance(second):
        return replace(first, support=first.support + second.support)
    return first if first.support >= second.support else second


def _stance(edit: PatchEdit) -> str | None:
    about = subject(edit.content)
    return about[1] if about else None


def _as_json(edit: PatchEdit) -> dict[str, object]:
    return {
        "op": edit.op,
        "target": edit.target,
        "content": edit.content,
        "support_count": edit.support,
        "source_type": edit.source,
    }

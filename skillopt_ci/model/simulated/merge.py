"""The simulated merges: duplicates joined, contradictions settled by support."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from skillopt_ci.model.simulated.brief import PatchEdit
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.revision import attribution
from skillopt_ci.model.simulated.skill_reading import subject
from skillopt_ci.model.simulated.temperament import Temperament


def merge_edits(
    edits: Sequence[PatchEdit], dice: Dice, temperament: Temperament
) -> dict[str, object]:
    """Return the merged patch: one edit for each subject, with the support of all it stands for."""
    kept, reasoning = merged(edits, dice, temperament)
    return {"reasoning": reasoning, "edits": [_as_json(edit) for edit in kept]}


def merged(
    edits: Sequence[PatchEdit], dice: Dice, temperament: Temperament
) -> tuple[list[PatchEdit], str]:
    """Return what stays of ``edits``, with the support of all it stands for, and the reasoning."""
    joined = _joined(edits)
    kept = [
        edit
        for edit in joined
        if edit.support > 1
        or edit.note_ids
        or dice.chance(f"keep {edit.content}", temperament.gullible)
    ]
    return kept, f"{len(edits)} proposed edits name {len(joined)} things; {len(kept)} stay."


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
    """Join two edits on one subject; of a contradiction a reviewer's wish or more support wins."""
    if _stance(first) == _stance(second):
        notes = tuple(dict.fromkeys((*first.note_ids, *second.note_ids)))
        return replace(first, support=first.support + second.support, note_ids=notes)
    if bool(first.note_ids) != bool(second.note_ids):
        return first if first.note_ids else second
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
        **attribution(edit.note_ids),
    }

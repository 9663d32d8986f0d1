"""Update: the selected changes become the next document, in whatever way the mode works."""

from collections.abc import Sequence
from dataclasses import replace

from skillopt_ci.skill.edits import Edit, EditReport, EditStatus
from skillopt_ci.skill.regions import restore_regions
from skillopt_ci.training.modes import Desk, Updated, UpdateMode
from skillopt_ci.training.replies import Item


async def update(
    skill: str,
    edits: Sequence[Item],
    *,
    mode: UpdateMode[Item],
    desk: Desk,
    keep: Sequence[int] | None = None,
) -> Updated:
    """Return ``skill`` with ``edits`` carried out, its protected parts byte for byte as before.

    ``keep`` are the numbers of the edits that a race left over (None: there was none); the others
    are reported as raced out. A document that the guard refuses as a whole is given up.
    """
    kept = range(len(edits)) if keep is None else keep
    updated = await mode.update(skill, [edits[n] for n in kept], desk)
    if keep is not None:
        updated = replace(updated, reports=_reports(edits, keep, updated.reports))
    document = restore_regions(skill, updated.skill)
    reason = desk.refuse(skill, document)
    if reason is not None:
        return replace(updated, skill=skill, refused=reason)
    return replace(updated, skill=document)


def _reports(
    edits: Sequence[Item], keep: Sequence[int], kept: Sequence[EditReport]
) -> tuple[EditReport, ...]:
    """The fate of all edits, in their order."""
    fates = dict(zip(keep, kept, strict=True))
    return tuple(
        replace(fates[n], index=n + 1)
        if n in fates
        else EditReport(n + 1, edit, EditStatus.RACED_OUT)
        for n, edit in enumerate(_edits(edits))
    )


def _edits(items: Sequence[object]) -> list[Edit]:
    """Only single edits are raced."""
    return [one for one in items if isinstance(one, Edit)]

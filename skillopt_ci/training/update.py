"""Update: the selected changes become the next document, in whatever way the mode works."""

from collections.abc import Sequence
from dataclasses import replace

from skillopt_ci.skill.restore import restore_regions
from skillopt_ci.training.modes.mode import Desk, Updated, UpdateMode
from skillopt_ci.training.patch import Item


async def update(
    skill: str, edits: Sequence[Item], *, mode: UpdateMode[Item], desk: Desk
) -> Updated:
    """Return ``skill`` with ``edits`` carried out, its protected parts byte for byte as before.

    A document that the guard refuses as a whole is given up.
    """
    updated = await mode.update(skill, edits, desk)
    document = restore_regions(skill, updated.skill)
    reason = desk.refuse(skill, document)
    if reason is not None:
        return replace(updated, skill=skill, refused=reason)
    return replace(updated, skill=document)

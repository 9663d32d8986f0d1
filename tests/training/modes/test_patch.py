import asyncio
from collections.abc import Callable
from typing import Any

from skillopt_ci.skill.edits import Edit, EditStatus
from skillopt_ci.training.modes import Desk, PatchMode


def test_edits_are_applied_and_nobody_is_asked(
    scripted: Callable[..., Any], make_desk: Callable[..., Desk]
) -> None:
    client = scripted(lambda request: "never")
    edits = (Edit("append", content="- new"), Edit("delete", target="missing"))
    updated = asyncio.run(PatchMode().update("# Skill\n", edits, make_desk(client)))
    assert (updated.skill, updated.outcome) == ("# Skill\n\n- new\n", "updated")
    assert [report.status for report in updated.reports] == [
        EditStatus.APPENDED,
        EditStatus.DELETE_NOT_FOUND,
    ]
    assert client.requests == []


def test_the_budget_is_a_number_or_none_at_all() -> None:
    assert PatchMode().assignment(3) == "## Edits Budget\n\nPropose at most L=3 edits."
    unlimited = PatchMode().assignment(None)
    assert unlimited.startswith("## Edits Budget\n\nThere is no fixed limit")
    assert not any(character.isdigit() for character in unlimited)

import asyncio
from collections.abc import Callable
from typing import Any

from skillopt_ci.training.modes import Desk, FullRewriteMode, Updated
from skillopt_ci.training.replies import SkillCandidate

MODE = FullRewriteMode(9_000)


def updated(desk: Desk, *candidates: SkillCandidate) -> Updated:
    return asyncio.run(MODE.update("# Old\n", candidates, desk))


def test_the_first_candidate_is_the_new_document(
    scripted: Callable[..., Any], make_desk: Callable[..., Desk]
) -> None:
    client = scripted(lambda request: "never")
    found = updated(make_desk(client), SkillCandidate("# A", "t", ("one",)), SkillCandidate("# B"))
    assert found == Updated("# A\n", change_summary=("one",))
    assert client.requests == []


def test_without_a_candidate_the_old_document_stays(
    scripted: Callable[..., Any], make_desk: Callable[..., Desk]
) -> None:
    found = updated(make_desk(scripted(lambda request: "never")))
    assert found == Updated("# Old\n", "skip_no_rewrite")


def test_analysts_are_told_the_format_and_no_number() -> None:
    assert MODE.assignment(4) == MODE.assignment(None)
    assert MODE.assignment(4).startswith("## Update Format\n")
    assert "4" not in MODE.assignment(4)

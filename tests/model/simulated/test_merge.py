from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from skillopt_ci.demo.models import HOUSE_STYLE_BY_NAME, STEADY, Dice, PatchEdit, merge_edits

FIRST, SECOND = HOUSE_STYLE_BY_NAME["date"].rules
WRONG = HOUSE_STYLE_BY_NAME["date"].harmful


def _edit(content: str, support: int = 2) -> PatchEdit:
    return PatchEdit("append", "", content, support, "failure")


def _merged(edits: Sequence[PatchEdit], dice: Dice, gullible: float = 0) -> list[tuple[str, int]]:
    reply = _told(edits, dice, gullible)
    return [(str(edit["content"]), edit["support_count"]) for edit in reply]


def _told(edits: Sequence[PatchEdit], dice: Dice, gullible: float = 0) -> list[dict[str, Any]]:
    reply = merge_edits(edits, dice, replace(STEADY, gullible=gullible))["edits"]
    assert isinstance(reply, list)
    return reply


def test_two_wordings_of_a_rule_become_one_with_both_supports(dice: Dice) -> None:
    assert _merged([_edit(FIRST, 2), _edit(SECOND, 3)], dice) == [(FIRST, 5)]


def test_of_two_contradicting_edits_the_better_backed_stays(dice: Dice) -> None:
    assert _merged([_edit(WRONG, 2), _edit(FIRST, 3)], dice) == [(FIRST, 3)]
    assert _merged([_edit(WRONG, 3), _edit(FIRST, 2)], dice) == [(WRONG, 3)]


def test_what_nobody_else_backs_may_be_dropped(dice: Dice) -> None:
    assert _merged([_edit("Be nice.", 1)], dice) == []
    assert _merged([_edit("Be nice.", 1)], dice, gullible=1) == [("Be nice.", 1)]


def test_what_reviewers_ask_for_stays_with_all_its_notes(dice: Dice) -> None:
    edits = [
        replace(_edit(text, 1), note_ids=(note,)) for text, note in ((FIRST, "a"), (SECOND, "b"))
    ]
    (told,) = _told([*edits, _edit(WRONG, 9)], dice)
    assert (told["content"], told["note_ids"]) == (FIRST, ("a", "b"))
    assert len(_told([edits[0]], dice)) == 1


def test_different_subjects_stay_in_order(dice: Dice) -> None:
    tax = HOUSE_STYLE_BY_NAME["tax"].rules[0]
    assert _merged([_edit(tax), _edit("Be nice."), _edit(FIRST)], dice) == [
        (tax, 2),
        ("Be nice.", 2),
        (FIRST, 2),
    ]

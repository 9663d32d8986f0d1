from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import STEADY, Change, Dice, change_of, revised

CAREFUL = replace(STEADY, forgetful=0, meddlesome=0)
TAIL = "<!-- APPENDIX_START -->\n- a note\n<!-- APPENDIX_END -->"
SKILL = f"---\ndescription: x\n---\n# Rules\n\n- one\n- two\n\n{TAIL}"


def test_a_new_rule_stands_below_the_last_one_and_above_the_regions(dice: Dice) -> None:
    text = revised(SKILL, [Change(new="- three")], dice, CAREFUL)
    assert text == SKILL.replace("- two", "- two\n- three")


def test_a_rule_is_replaced_or_dropped_in_its_place(dice: Dice) -> None:
    text = revised(SKILL, [Change("- one", "- 1"), Change("- two")], dice, CAREFUL)
    assert text == SKILL.replace("- one\n- two", "- 1")


def test_what_is_to_replace_a_missing_line_is_added(dice: Dice) -> None:
    assert "- two\n- new\n" in revised(SKILL, [Change("- lost", "- new")], dice, CAREFUL)


def test_the_forgetful_lose_one_rule(dice: Dice) -> None:
    text = revised(SKILL, [], dice, replace(CAREFUL, forgetful=1))
    assert ("- one" in text) + ("- two" in text) == 1


def test_the_meddlesome_change_what_is_protected(dice: Dice) -> None:
    text = revised(SKILL, [], dice, replace(CAREFUL, meddlesome=1))
    assert text.startswith("---\nabout: x\n---\n# Rules")
    assert "APPENDIX" not in text


def test_an_edit_is_told_in_one_line() -> None:
    edits: list[dict[str, object]] = [
        {"op": "append", "content": "- new"},
        {"op": "replace", "target": "- old", "content": "- new"},
        {"op": "delete", "target": "- old"},
    ]
    told = [change_of(edit).summary for edit in edits]
    assert told == ["Add: new", "Replace by: new", "Drop: old"]


@given(document=st.text(), old=st.text(), new=st.text(), key=st.text())
def test_no_document_can_break_it(document: str, old: str, new: str, key: str) -> None:
    assert isinstance(revised(document, [Change(old, new)], Dice(0, key), STEADY), str)

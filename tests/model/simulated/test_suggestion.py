import json
from dataclasses import replace

from skillopt_ci.demo.models import (
    HOUSE_STYLE_BY_NAME,
    STEADY,
    Dice,
    as_suggestions,
    merge_suggestions,
    rewrite,
)

CAREFUL = replace(STEADY, forgetful=0, meddlesome=0, gullible=0)
FIRST, SECOND = HOUSE_STYLE_BY_NAME["date"].rules
EDITS: list[dict[str, object]] = [
    {"op": "append", "content": f"- {FIRST}", "support_count": 2},
    {"op": "replace", "target": "- old", "content": "- new", "support_count": 1},
    {"op": "delete", "target": "- gone", "support_count": 1},
]


def listed(title: str, *edits: dict[str, object]) -> str:
    suggestions = as_suggestions("so", edits)["revise_suggestions"]
    skill = "## Current Skill\n\n```markdown\n# S\n\n- old\n- gone\n```"
    return f"{skill}\n\n## {title}\n\n```json\n{json.dumps(suggestions)}\n```"


def test_edits_become_suggestions_in_words() -> None:
    told = as_suggestions("so", EDITS)["revise_suggestions"]
    assert isinstance(told, list)
    assert [one["type"] for one in told] == ["add_rule", "clarify", "remove_rule"]
    assert told[1]["instruction"] == "Remove: - old\nWrite instead: - new"
    assert [one["priority_hint"] for one in told] == ["high", "low", "low"]


def test_suggestions_name_the_notes_that_they_follow(dice: Dice) -> None:
    wish = {**EDITS[1], "note_ids": ["review-7"]}
    merged = merge_suggestions(listed("Patches to merge (1 total)", wish), dice, CAREFUL)
    (one,) = merged["revise_suggestions"]  # type: ignore[misc]
    assert one["note_ids"] == ("review-7",)


def test_suggestions_are_carried_out(dice: Dice) -> None:
    reply = rewrite(listed("Suggestions to carry out (3 total)", *EDITS), dice, CAREFUL)
    assert reply["new_skill"] == f"# S\n\n- new\n- {FIRST}"
    assert reply["change_summary"] == [f"Add: {FIRST}", "Replace by: new", "Drop: gone"]


def test_two_wordings_of_a_suggestion_become_one(dice: Dice) -> None:
    other = {"op": "append", "content": f"- {SECOND}", "support_count": 3}
    prompt = listed("Patches to merge (2 total, merge level 1)", EDITS[0], other)
    merged = merge_suggestions(prompt, dice, CAREFUL)["revise_suggestions"]
    assert isinstance(merged, list)
    (one,) = merged
    assert (one["instruction"], one["support_count"], one["type"]) == (f"- {FIRST}", 5, "add_rule")

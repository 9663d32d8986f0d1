import json
from dataclasses import replace

from skillopt_ci.demo.models import HOUSE_STYLE_BY_NAME, STEADY, Dice, as_document, merge_documents

CAREFUL = replace(STEADY, forgetful=0, meddlesome=0)
FIRST, SECOND = HOUSE_STYLE_BY_NAME["date"].rules
SKILL = "# S\n\n- old"


def merged(dice: Dice, *documents: str) -> dict[str, object]:
    listed = json.dumps([{"new_skill": text, "support_count": 2} for text in documents])
    skill = f"## Current Skill\n\n```markdown\n{SKILL}\n```"
    prompt = f"{skill}\n\n## Patches to merge (2 total)\n\n```json\n{listed}\n```"
    candidates = merge_documents(prompt, dice, CAREFUL)["skill_candidates"]
    assert isinstance(candidates, list)
    (candidate,) = candidates
    assert isinstance(candidate, dict)
    return candidate


def test_an_analyst_carries_its_edits_out(dice: Dice) -> None:
    proposal = as_document(SKILL, dice, CAREFUL)("so", [{"op": "append", "content": "- new"}])
    assert proposal["skill_candidates"] == [
        {
            "title": "Revise 1 rules",
            "change_summary": ["Add: new"],
            "new_skill": f"{SKILL}\n- new",
            "support_count": 1,
        }
    ]


def test_an_analyst_without_edits_writes_no_document(dice: Dice) -> None:
    assert as_document(SKILL, dice, CAREFUL)("so", [])["skill_candidates"] == []


def test_of_two_wordings_the_first_is_taken_over(dice: Dice) -> None:
    found = merged(dice, f"{SKILL}\n- {FIRST}", f"{SKILL}\n- {SECOND}\n- also")
    assert found["new_skill"] == f"{SKILL}\n- {FIRST}\n- also"
    assert found["support_count"] == 4


def test_a_rule_goes_if_most_documents_drop_it(dice: Dice) -> None:
    assert merged(dice, "# S\n", "# S\n", SKILL)["new_skill"] == "# S\n"
    assert merged(dice, "# S\n", SKILL)["new_skill"] == SKILL

from dataclasses import replace

from skillopt_ci.demo import models
from skillopt_ci.demo.models import (
    HOUSE_STYLE_BY_NAME,
    MISHAPS,
    STEADY,
    AnalystBrief,
    Dice,
    Trajectory,
    analyse_failures,
    analyse_successes,
    broken_conventions,
)
from skillopt_ci.demo.models import HOUSES_BY_NAME as HOUSES

NOTE = "Note: Paid 480 EUR to Oak Tower on 7 March 2026."
SEEN = Trajectory(
    references=("2026-03-07 | OAK TOWER | EUR 480.00",),
    prompt=NOTE,
    answer="7 March 2026 | Oak Tower | EUR 480.00",
)
BRIEF = AnalystBrief(skill="# Skill\n", limit=4, previous="", trajectories=(SEEN,) * 3)
SAGE = replace(
    STEADY,
    insight=1.0,
    vigilance=1.0,
    harmful=0,
    platitude=0,
    duplicate=0,
    missing_target=0,
    leak=0,
    link=0,
)


def _edits(brief: AnalystBrief, dice: Dice, **rates: float) -> list[dict[str, object]]:
    reply = analyse_failures(brief, dice, replace(SAGE, **rates))  # type: ignore[arg-type]
    patch = reply["patch"]
    assert isinstance(patch, dict)
    edits: list[dict[str, object]] = patch["edits"]
    return edits


def test_answers_and_references_tell_what_is_broken() -> None:
    assert broken_conventions([SEEN, SEEN]) == {"date": 2, "vendor": 2}


def test_what_cannot_be_compared_teaches_nothing() -> None:
    strange = replace(SEEN, answer="no idea")
    unreferenced = replace(SEEN, references=())
    assert broken_conventions([strange, unreferenced, replace(SEEN, prompt="?")]) == {}


def test_a_missing_rule_is_added_with_its_support(dice: Dice) -> None:
    edits = _edits(BRIEF, dice)
    assert [edit["support_count"] for edit in edits] == [3, 3]
    assert str(edits[0]["content"])[2:] in HOUSE_STYLE_BY_NAME["date"].rules


def test_a_note_that_names_a_convention_is_followed_first(dice: Dice) -> None:
    wishes = {"review-7": "Please pad references with leading zeros.", "issue-1": "Looks good!"}
    edits = _edits(replace(BRIEF, wishes=wishes), dice)
    assert str(edits[0]["content"])[2:] in HOUSE_STYLE_BY_NAME["reference"].rules
    assert [edit.get("note_ids") for edit in edits] == [["review-7"], None, None]


def test_a_note_on_what_was_seen_adds_no_second_edit(dice: Dice) -> None:
    wishes = {"review-7": "Dates in ISO form.", "review-8": "Use ISO dates, please."}
    edits = _edits(replace(BRIEF, wishes=wishes), dice)
    assert [edit.get("note_ids") for edit in edits] == [["review-7", "review-8"], None]
    assert edits[0]["support_count"] == 3


def test_what_the_skill_says_already_needs_no_edit_for_a_note(dice: Dice) -> None:
    known = "# Skill\n\n" + "\n".join(
        f"- {HOUSE_STYLE_BY_NAME[name].rules[0]}" for name in ("date", "vendor")
    )
    assert _edits(replace(BRIEF, skill=known, wishes={"review-7": "ISO dates!"}), dice) == []


def test_notes_are_followed_where_nothing_failed(dice: Dice) -> None:
    brief = replace(BRIEF, wishes={"review-7": "Dates in ISO form."})
    patch = analyse_successes(brief, dice, SAGE)["patch"]
    assert isinstance(patch, dict)
    assert [edit["note_ids"] for edit in patch["edits"]] == [["review-7"]]


def test_no_more_edits_than_the_budget_allows(dice: Dice) -> None:
    assert len(_edits(replace(BRIEF, limit=1), dice, harmful=1)) == 1
    assert _edits(replace(BRIEF, limit=0), dice, harmful=1) == []


def test_a_rule_that_is_stated_is_not_repeated(dice: Dice) -> None:
    stated = (
        f"- {HOUSE_STYLE_BY_NAME['date'].rules[0]}\n- {HOUSE_STYLE_BY_NAME['vendor'].rules[0]}\n"
    )
    assert _edits(replace(BRIEF, skill=stated), dice) == []


def test_a_line_that_misleads_is_replaced(dice: Dice) -> None:
    wrong = f"- {HOUSE_STYLE_BY_NAME['date'].harmful}"
    (edit,) = (e for e in _edits(replace(BRIEF, skill=f"{wrong}\n"), dice) if e["op"] == "replace")
    assert edit["target"] == wrong


def test_a_line_that_contradicts_a_right_one_is_deleted(dice: Dice) -> None:
    wrong = f"- {HOUSE_STYLE_BY_NAME['date'].harmful}"
    skill = f"- {HOUSE_STYLE_BY_NAME['date'].rules[0]}\n{wrong}\n"
    assert _edits(replace(BRIEF, skill=skill), dice)[0] | {} == {
        "op": "delete",
        "target": wrong,
        "support_count": 3,
    }


def test_a_rejected_wording_is_not_proposed_again(dice: Dice) -> None:
    for rejected in HOUSE_STYLE_BY_NAME["date"].rules:
        edits = _edits(replace(BRIEF, previous=f'1. [append] "- {rejected}"'), dice)
        assert f"- {rejected}" not in [edit["content"] for edit in edits]


def test_each_mishap_can_happen(dice: Dice) -> None:
    skilled = replace(BRIEF, skill=f"- {HOUSE_STYLE_BY_NAME['tax'].rules[0]}\n")
    for kind in MISHAPS:
        assert _edits(skilled, dice, **{kind: 1}) != _edits(skilled, dice)


def test_harmful_advice_that_was_rejected_is_not_given_again(dice: Dice) -> None:
    previous = "\n".join(convention.harmful for convention in HOUSE_STYLE_BY_NAME.values())
    brief = replace(BRIEF, previous=previous)
    assert _edits(brief, dice, harmful=1) == _edits(brief, dice)


def test_successes_call_for_little(dice: Dice) -> None:
    reply = analyse_successes(BRIEF, dice, SAGE)
    assert reply["patch"] == {"reasoning": "What works is in the skill already.", "edits": []}


def test_of_a_script_it_judges_by_what_the_checker_said(dice: Dice) -> None:
    prompt = "Order: The job `logs` counts the lines of `data/logs.txt`."
    said = "the script stands in the wrong folder; no comment names the owner;"
    failed = Trajectory((), prompt, "", said)
    assert broken_conventions([failed, failed]) == {"place": 2, "owner": 2}
    edits = _edits(replace(BRIEF, trajectories=(failed,) * 3), dice)
    contents = [str(edit["content"])[2:] for edit in edits]
    wordings = [HOUSES[name].rules for name in ("place", "owner")]
    assert [content in rules for content, rules in zip(contents, wordings, strict=True)] == [
        True
    ] * 2


def test_its_mistakes_are_about_the_same_work(dice: Dice) -> None:
    prompt = "Order: The job `logs` counts the lines of `data/logs.txt`."
    failed = replace(BRIEF, trajectories=(Trajectory((), prompt, "", "odd"),))
    (edit,) = _edits(failed, dice, harmful=1)
    assert str(edit["content"])[2:] in {
        convention.harmful for convention in models.SHELL_CONVENTIONS
    }

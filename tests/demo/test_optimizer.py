"""The simulated optimizer: each stage by itself; ``test_stages`` puts it to the real ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_ci.config.config import Gradient
from skillopt_ci.demo.client import answer
from skillopt_ci.demo.optimizer import (
    MISHAPS,
    MOST_CAUSES,
    Edit,
    analyse_failures,
    analyse_successes,
    broken_conventions,
    condense,
    lapse_notes,
    merge_edits,
    meta_skill,
    mishap,
    propose,
    slow_update,
)
from skillopt_ci.demo.prompt_reader import AnalystBrief, Trajectory, read_comparison_brief
from skillopt_ci.demo.world import CONVENTIONS, Dice, content_key, stances
from skillopt_ci.messages import Message, fenced
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.skill.regions import with_notes
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.slow_update import Pair, Side, render_pairs
from tests.demo.conftest import asked
from tests.support.office_tasks import ledger_tasks
from tests.support.simulated_modes import (
    Change,
    choose_learning_rate,
    merge_documents,
    merge_suggestions,
    revised,
    rewrite,
    spelt,
)

PROMPTS = Prompts.load()
FIRST, SECOND = CONVENTIONS["date"].rules
WRONG = CONVENTIONS["date"].harmful
SEEN = Trajectory(
    references=("2026-03-07 | OAK TOWER | EUR 480.00",),
    prompt="Note: Paid 480 EUR to Oak Tower on 7 March 2026.",
    answer="7 March 2026 | Oak Tower | EUR 480.00",
)
BRIEF = AnalystBrief(skill="# Skill\n", limit=4, previous="", trajectories=(SEEN,) * 3)
POOL = """## Edit pool (3 edits)

```
[0] op="append" target="" content="a" support=1
[1] op="append" target="" content="b" support=5
[2] op="append" target="" content="support=9" support=3
```

Select at most 2 edits."""

pytestmark = pytest.mark.usefixtures("careful")


def stage(name: str, user: str) -> tuple[Message, ...]:
    return asked(f"# Role\n\nStage: {name}\n", user)


def listed(title: str, *entries: object, skill: str = "# S\n\n- old\n- gone") -> str:
    """A prompt that shows a skill and a list in JSON."""
    return (
        f"## Current Skill\n\n```markdown\n{skill}\n```\n\n"
        f"## {title}\n\n```json\n{json.dumps(entries)}\n```"
    )


# Analysts.


def edits_of(brief: AnalystBrief, dice: Dice) -> list[Edit]:
    return analyse_failures(brief, dice)[2]


def test_broken_conventions_compares_answers_with_references():
    assert broken_conventions([SEEN, SEEN]) == {"date": 2, "vendor": 2}
    strange, unreferenced = replace(SEEN, answer="no idea"), replace(SEEN, references=())
    assert broken_conventions([strange, unreferenced, replace(SEEN, prompt="?")]) == {}


def test_analyst_adds_a_missing_rule_with_its_support(dice):
    edits = edits_of(BRIEF, dice)
    assert [edit["support_count"] for edit in edits] == [3, 3]
    assert str(edits[0]["content"])[2:] in CONVENTIONS["date"].rules


def test_analyst_does_not_repeat_what_the_skill_states(dice):
    known = "".join(f"- {CONVENTIONS[name].rules[0]}\n" for name in ("date", "vendor"))
    assert edits_of(replace(BRIEF, skill=f"# Skill\n\n{known}"), dice) == []


def test_analyst_keeps_to_its_budget(dice, rates):
    rates(harmful=1)
    assert len(edits_of(replace(BRIEF, limit=1), dice)) == 1
    assert edits_of(replace(BRIEF, limit=0), dice) == []


def test_analyst_replaces_a_line_that_misleads(dice):
    edits = edits_of(replace(BRIEF, skill=f"- {WRONG}\n"), dice)
    assert [edit["target"] for edit in edits if edit["op"] == "replace"] == [f"- {WRONG}"]


def test_analyst_deletes_a_line_that_contradicts_a_right_one(dice):
    edit, *_ = edits_of(replace(BRIEF, skill=f"- {FIRST}\n- {WRONG}\n"), dice)
    assert edit == {"op": "delete", "target": f"- {WRONG}", "support_count": 3}


@pytest.mark.parametrize("rejected", CONVENTIONS["date"].rules)
def test_analyst_avoids_a_rejected_wording(rejected, dice):
    edits = edits_of(replace(BRIEF, previous=f'1. [append] "- {rejected}"'), dice)
    assert f"- {rejected}" not in [edit["content"] for edit in edits]


@pytest.mark.parametrize("kind", MISHAPS)
def test_each_mishap_can_happen(kind, dice, rates):
    skilled = replace(BRIEF, skill=f"- {CONVENTIONS['tax'].rules[0]}\n")
    plain = edits_of(skilled, dice)
    rates(**{kind: 1})
    assert edits_of(skilled, dice) != plain


def test_mishaps_leak_answers_and_link_pages(dice):
    leaked, linked = mishap("leak", BRIEF, dice), mishap("link", BRIEF, dice)
    assert SEEN.references[0] in str(leaked)
    assert "https://" in str(linked)


def test_mishap_is_none_where_there_is_nothing_to_propose(dice):
    rejected = "\n".join(convention.harmful for convention in CONVENTIONS.values())
    assert mishap("harmful", replace(BRIEF, previous=rejected), dice) is None
    assert mishap("leak", replace(BRIEF, trajectories=()), dice) is None


def test_successes_call_for_nothing(dice):
    assert analyse_successes(BRIEF, dice)[2] == []


# Reminders.


def test_lapse_is_a_broken_rule_that_the_skill_states():
    skill = f"# Skill\n\n- {FIRST}\n"
    (note,) = lapse_notes(replace(BRIEF, skill=skill))
    assert note.lower().endswith(FIRST.lower())
    assert stances(note)["date"] == {"for"}
    assert lapse_notes(replace(BRIEF, skill=f"{skill}- {WRONG}\n")) == []
    assert lapse_notes(replace(BRIEF, skill=with_notes(skill, [note]))) == []


@pytest.mark.parametrize("wanted", [True, False])
def test_reminders_are_written_only_where_they_are_asked_for(wanted, dice):
    parts = ["analyst_error", *(["analyst_error_skill_aware"] if wanted else [])]
    system = "\n\n".join(map(PROMPTS.text, parts))
    told = propose(asked(system, "### Trajectory 1 (id=a)\n"), dice)
    assert ("appendix_notes" in told) == wanted


def test_condense_keeps_one_reminder_of_each_subject():
    notes = [f"Before you answer, look again: {FIRST}", SECOND, "Stay calm."]
    shown = fenced("\n".join(f"- {note}" for note in notes))
    prompt = library.section("Reminders (3 total)", shown)
    assert condense(prompt) == {"appendix_notes": [FIRST, "Stay calm."]}
    assert condense("") == {"appendix_notes": []}


# Merges of edits.


def edit(content: str, support: int = 2, **fields: object) -> Edit:
    return {"op": "append", "content": content, "support_count": support, **fields}


def merged(dice: Dice, *edits: Edit) -> list[dict[str, Any]]:
    found = merge_edits(listed("Patches to merge", *edits), dice)["edits"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("edits", "kept"),
    [
        ([edit(FIRST, 2), edit(SECOND, 3)], [(FIRST, 5)]),
        ([edit(WRONG, 2), edit(FIRST, 3)], [(FIRST, 3)]),
        ([edit(WRONG, 3), edit(FIRST, 2)], [(WRONG, 3)]),
        ([edit("Be nice.", 1)], []),
        ([edit("Be nice."), edit(FIRST)], [("Be nice.", 2), (FIRST, 2)]),
    ],
    ids=["wordings", "contradiction", "contradiction-turned", "alone", "subjects"],
)  # fmt: skip
def test_merge_keeps_one_edit_of_each_subject(edits, kept, dice):
    assert [(one["content"], one["support_count"]) for one in merged(dice, *edits)] == kept


def test_gullible_merge_keeps_what_nobody_else_backs(dice, rates):
    rates(gullible=1)
    assert len(merged(dice, edit("Be nice.", 1))) == 1


# Suggestions and documents.

TAIL = "<!-- APPENDIX_START -->\n- a note\n<!-- APPENDIX_END -->"
SKILL = f"---\ndescription: x\n---\n# Rules\n\n- one\n- two\n\n{TAIL}"
EDITS: list[Edit] = [
    edit(f"- {FIRST}"),
    {"op": "replace", "target": "- old", "content": "- new", "support_count": 1},
    {"op": "delete", "target": "- gone", "support_count": 1},
]


def suggestions(dice: Dice, *edits: Edit) -> list[dict[str, Any]]:
    found = spelt("_rewrite", "", edits, dice)["revise_suggestions"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(new="- three"), SKILL.replace("- two", "- two\n- three")),
        (Change("- one", "- 1"), SKILL.replace("- one", "- 1")),
        (Change("- two"), SKILL.replace("- one\n- two", "- one")),
        (Change("- lost", "- new"), SKILL.replace("- two", "- two\n- new")),
    ],
)
def test_revised_changes_lines_above_the_regions(change, expected, dice):
    assert revised(SKILL, [change], dice) == expected


def test_revision_may_lose_a_rule_or_meddle(dice, rates):
    rates(forgetful=1)
    text = revised(SKILL, [], dice)
    assert ("- one" in text) + ("- two" in text) == 1
    rates(forgetful=0, meddlesome=1)
    text = revised(SKILL, [], dice)
    assert text.startswith("---\nabout: x\n---\n# Rules")
    assert "APPENDIX" not in text


@given(document=st.text(), old=st.text(), new=st.text(), key=st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_revised_takes_any_document(document, old, new, key):
    assert isinstance(revised(document, [Change(old, new)], Dice(0, key)), str)


def test_change_is_told_in_words_and_understood():
    changes = [Change.of(one) for one in EDITS]
    assert [one.summary for one in changes] == [f"Add: {FIRST}", "Replace by: new", "Drop: gone"]
    assert changes[1].instruction == "Remove: - old\nWrite instead: - new"
    assert [Change.told(one.instruction) for one in changes] == changes


def test_suggestions_say_kind_and_priority(dice):
    told = suggestions(dice, *EDITS)
    assert [one["type"] for one in told] == ["add_rule", "clarify", "remove_rule"]
    assert [one["priority_hint"] for one in told] == ["high", "low", "low"]


def test_rewrite_carries_suggestions_out(dice):
    prompt = listed("Suggestions to carry out (3 total)", *suggestions(dice, *EDITS))
    reply = rewrite(prompt, dice)
    assert reply["new_skill"] == f"# S\n\n- new\n- {FIRST}"
    assert reply["change_summary"] == [f"Add: {FIRST}", "Replace by: new", "Drop: gone"]


def test_merge_joins_two_wordings_of_a_suggestion(dice):
    both = suggestions(dice, EDITS[0], edit(f"- {SECOND}", 3))
    prompt = listed("Patches to merge (2 total, merge level 1)", *both)
    (one,) = merge_suggestions(prompt, dice)["revise_suggestions"]
    assert (one["instruction"], one["support_count"], one["type"]) == (f"- {FIRST}", 5, "add_rule")


MODE = "_full_rewrite"


def test_analyst_writes_a_document_only_with_edits(dice):
    (candidate,) = spelt("_full_rewrite", "# S\n\n- old", [edit("- new")], dice)["skill_candidates"]
    assert candidate == {
        "title": "Revise 1 rules",
        "change_summary": ["Add: new"],
        "new_skill": "# S\n\n- old\n- new",
        "support_count": 1,
    }
    assert spelt(MODE, "# S", [], dice)["skill_candidates"] == []


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([f"# S\n\n- old\n- {FIRST}", f"# S\n\n- old\n- {SECOND}\n- also"],
         f"# S\n\n- old\n- {FIRST}\n- also"),
        (["# S\n", "# S\n", "# S\n\n- old"], "# S\n"),
        (["# S\n", "# S\n\n- old"], "# S\n\n- old"),
    ],
    ids=["two-wordings", "most-drop-a-rule", "half-drop-a-rule"],
)  # fmt: skip
def test_merge_of_documents(documents, expected, dice):
    entries = [{"new_skill": text, "support_count": 2} for text in documents]
    prompt = listed("Patches to merge (2 total)", *entries, skill="# S\n\n- old")
    (found,) = merge_documents(prompt, dice)["skill_candidates"]
    assert (found["new_skill"], found["support_count"]) == (expected, 2 * len(documents))


# Rankings and learning rates.


def test_ranking_prefers_support(dice):
    reply = propose(stage("ranking", POOL), dice)
    assert json.loads(reply[reply.index("{") : reply.rindex("}") + 1])["selected_indices"] == [1, 2]


@pytest.mark.parametrize(
    ("hard", "rash", "size"), [("0.250000", 0, 3), ("0.750000", 0, 2), ("0.250000", 1, 5)]
)
def test_learning_rate_falls_with_success(hard, rash, size, rates):
    rates(rash=rash)
    pool = "\n".join(f"[{index}] op=append support={1 + index % 4}" for index in range(4))
    prompt = (
        f"## Evidence\n\n- rollout_hard: {hard}\n\n## Proposed items (4 total)\n\n```\n{pool}\n```"
    )
    told = [choose_learning_rate(prompt, Dice(seed, "k"))["learning_rate"] for seed in range(20)]
    assert {int(float(str(one).removesuffix(" of them"))) for one in told} == {size}
    assert {type(one) for one in told} == {int, float, str}


# The end of an epoch.

BARE = "# Ledger lines\n"
REFUND = "Refunds are negative: a minus sign stands directly before the number."


@pytest.fixture
def failures() -> tuple[Trajectory, ...]:
    """Answers that follow no convention but the order of the fields."""
    said = ((one, answer(asked(BARE, one.prompt), Dice(1, "f"))) for one in ledger_tasks(3, 12))
    return tuple(
        Trajectory((task.reference,), task.prompt, text.partition("<answer>")[2][:-9])
        for task, text in said
    )


def comparison(failures: tuple[Trajectory, ...], skill: str = BARE, guidance: str = "None.") -> str:
    pairs = []
    for number, one in enumerate(failures):
        user = Message("user", one.prompt)
        said = Message("assistant", f"<answer>{one.answer}</answer>")
        task = Task(f"t{number}", (user,), references=one.references)
        side = Side((Rollout(task.id, Status.SCORED, 0.0, 0.0, "", one.answer, (user, said)),))
        pairs.append(Pair(task, side, side))
    return library.joined(
        library.current_skill(skill),
        library.section("Previous Guidance", guidance),
        render_pairs(pairs, skill, skill, Gradient()),
    )


@pytest.fixture
def guidance(dice: Dice) -> Callable[..., list[str]]:
    return lambda *about: str(
        slow_update(comparison(*about), dice)["slow_update_content"]
    ).splitlines()


def test_comparison_brief_is_read_back(failures):
    brief = read_comparison_brief(comparison(failures))
    wrong = [one.answer for one in failures if one.answer not in one.references]
    assert [one.answer for one in brief.failures] == wrong
    assert (brief.skill, brief.guidance) == (BARE.strip(), ())


def test_guidance_states_a_rule_then_reminds_of_it(failures, guidance):
    rules = guidance(failures)
    assert len(rules) == MOST_CAUSES
    assert not any("Check last" in line for line in rules)
    assert all(line.startswith("- Check last: ") for line in guidance(failures, "\n".join(rules)))


def test_guidance_keeps_what_it_said(failures, guidance):
    lines = guidance(failures, BARE, f"- {REFUND}")
    assert lines[0] == f"- {REFUND}"
    assert sum("inus" in line for line in lines) == 1
    assert guidance((), BARE, f"- {REFUND}") == [f"- {REFUND}"]


def test_meta_skill_names_what_is_left(failures):
    assert "Still open: " in str(meta_skill(comparison(failures))["meta_skill_content"])


@pytest.mark.parametrize("name", ["slow_update", "meta_skill", "appendix_consolidate"])
def test_real_prompts_name_their_stage(name, failures, dice):
    reply = propose(asked(PROMPTS.text(name), comparison(failures)), dice)
    assert json.loads(reply[reply.index("{") : reply.rindex("}") + 1])


# Wording and grading.


def test_unknown_stage_is_answered_with_an_empty_object():
    assert all("{}" in propose(stage("someday", "?"), Dice(0, str(k))) for k in range(20))


def test_replies_are_worded_in_several_ways():
    replies = [propose(stage("ranking", POOL), Dice(k, "w")) for k in range(20)]
    assert {reply[:1] for reply in replies} == {"{", "`", "I"}


def test_retry_may_mend_a_malformed_reply(rates):
    first = stage("ranking", POOL)
    good = propose(first, Dice(0, "k"))
    rates(malformed=0.5)
    retry = (*first, Message("assistant", "?"), Message("user", "That was no JSON object."))
    told = [propose(first, Dice(k, content_key(first))) for k in range(40)]
    again = [propose(retry, Dice(k, content_key(retry))) for k in range(40)]
    bad = [k for k in range(40) if "reasoning" not in told[k] or len(told[k]) < len(good) // 2]
    assert 5 < len(bad) < 35
    assert any("selected_indices" in again[k] and again[k] != told[k] for k in bad)


def grade_of(prompt: str) -> float:
    reply = propose((Message("user", prompt),), Dice(0, prompt))
    score = json.loads(reply)["score"]
    assert isinstance(score, float)
    return score


def test_grade_is_the_share_of_known_words():
    rubric = 'Reply {"score": 0..1}.\n```\nnames the river and the town\n```\n'
    assert grade_of(f"{rubric}```\nthe town\n```") == 1
    assert grade_of(f"{rubric}```\nno idea\n```") == 0


def test_grade_without_blocks_is_a_draw_between_bounds():
    assert all(0.4 <= grade_of(f'"score" {number}') <= 1 for number in range(50))


def test_stage_that_speaks_of_scores_is_not_graded(dice):
    assert "selected_indices" in propose(stage("ranking", f'{POOL} the "score"'), dice)


@given(st.sampled_from(["analyst_error", "analyst_success", "merge_final", "ranking"]), st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_propose_takes_any_prompt(name, user):
    assert propose(stage(name, f"## Trajectory 1\n{user}"), Dice(0, user))

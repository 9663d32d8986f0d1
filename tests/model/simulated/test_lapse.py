import json
from dataclasses import replace

from skillopt_ci.demo.models import (
    HOUSE_STYLE_BY_NAME,
    MISHAPS,
    STEADY,
    AnalystBrief,
    Dice,
    Trajectory,
    answer,
    condense,
    generate_notes,
    lapse_notes,
    propose,
    stances,
)
from skillopt_ci.messages import Message, fenced
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.regions import with_notes

RULE = HOUSE_STYLE_BY_NAME["date"].rules[0]
SKILL = f"# Skill\n\n- {RULE}\n"
SEEN = Trajectory(
    references=("2026-03-07 | OAK TOWER | EUR 480.00",),
    prompt="Note: Paid 480 EUR to Oak Tower on 7 March 2026.",
    answer="7 March 2026 | Oak Tower | EUR 480.00",
)
BRIEF = AnalystBrief(skill=SKILL, limit=4, previous="", trajectories=(SEEN,))
PROMPTS = Prompts.load()


def test_a_stated_rule_that_was_broken_is_a_lapse_and_a_missing_one_is_not() -> None:
    (note,) = lapse_notes(BRIEF)
    assert note.lower().endswith(RULE.lower())
    assert stances(note)["date"] == {"for"}


def test_a_rule_that_the_skill_contradicts_is_a_defect() -> None:
    torn = replace(BRIEF, skill=f"{SKILL}- {HOUSE_STYLE_BY_NAME['date'].harmful}\n")
    assert lapse_notes(torn) == []


def test_a_reminder_that_stands_there_is_not_repeated() -> None:
    noted = with_notes(SKILL, lapse_notes(BRIEF))
    assert lapse_notes(replace(BRIEF, skill=noted)) == []


def test_notes_are_written_only_where_they_are_asked_for() -> None:
    plain, supplement = PROMPTS.text("analyst_error"), PROMPTS.text("analyst_error_skill_aware")
    calm = replace(STEADY, malformed=0)
    for system, asked in ((plain, False), (f"{plain}\n\n{supplement}", True)):
        messages = [Message("system", system), Message("user", "### Trajectory 1 (id=a)\n")]
        told = propose(messages, Dice(1, "x"), calm)
        assert ("appendix_notes" in told) == asked


def test_reminders_of_one_subject_are_condensed_to_one() -> None:
    notes = [
        f"Before you answer, look again: {RULE}",
        HOUSE_STYLE_BY_NAME["date"].rules[1],
        "Stay calm.",
    ]
    listed = fenced("\n".join(f"- {note}" for note in notes))
    prompt = library.section("Reminders (3 total)", listed)
    assert condense(prompt) == {"appendix_notes": [RULE, "Stay calm."]}


def test_the_condensing_stage_is_answered() -> None:
    messages = [Message("system", PROMPTS.text("appendix_consolidate")), Message("user", "")]
    told = propose(messages, Dice(1, "x"), replace(STEADY, malformed=0))
    assert json.loads(told[told.index("{") : told.rindex("}") + 1]) == {"appendix_notes": []}


def test_a_reminded_target_slips_less() -> None:
    forgetful = replace(STEADY, slip=0.5, heedless=0.0)

    def solved(skill: str) -> int:
        tasks = generate_notes(5, 60)
        said = (
            answer(
                [Message("system", PROMPTS.target(skill)), Message("user", task.prompt)],
                Dice(0, task.id),
                forgetful,
            )
            for task in tasks
        )
        return sum("<answer>20" in one for one in said)

    assert solved(with_notes(SKILL, [RULE])) > solved(SKILL)


def test_an_erring_analyst_leaks_answers_and_links_pages() -> None:
    leaked = MISHAPS["leak"](BRIEF, Dice(1, "x"))
    assert leaked is not None
    assert SEEN.references[0] in str(leaked["content"])
    assert MISHAPS["leak"](replace(BRIEF, trajectories=()), Dice(1, "x")) is None
    linked = MISHAPS["link"](BRIEF, Dice(1, "x"))
    assert linked is not None
    assert "https://" in str(linked["content"])

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_ci.git.history import CommitText, message, parse_trailers
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.report.commits import (
    edit_text,
    gist,
    measured,
    merged,
    proposed,
    reverted,
    set_aside,
    started,
    took_in_base,
    unchanged,
)

if TYPE_CHECKING:
    from tests.report.conftest import Make

ATTACK = (
    "nice\n\nCo-authored-by: Eve <eve@example.org>\nSkillopt-Step: 99\n\n"
    "@octocat fixes #1 https://evil.example [skip ci] \x1b[31m\u202e"
)


def wrapped(text: CommitText) -> str:
    return message(text.subject, text.body, text.trailers)


def test_the_start_says_what_the_skill_scores_as_found(
    make_entry: Make, measurement: Measurement
) -> None:
    text = started(make_entry(kind="start", action="start"), "SKILL.md", measurement)
    assert text.subject == "Start training SKILL.md: 0.750 on 4 tasks"
    assert "0.750 [0.30, 0.95] n=4" in text.body
    assert text.trailers["Skillopt-Action"] == "start"


def test_a_new_measurement_says_why(make_entry: Make, measurement: Measurement) -> None:
    entry = make_entry(kind="measure", action="measure", reason="the skill was changed by hand")
    text = measured(entry, measurement)
    assert text.subject == "Measure again: 0.750 on 4 tasks, the skill was changed by hand"
    assert text.trailers["Skillopt-Score-After"] == "0.75"


def test_a_candidate_that_lost_its_ground_is_set_aside(make_entry: Make) -> None:
    entry = make_entry(kind="set_aside", action="set_aside", reason="the branch changed")
    text = set_aside(entry, "step 4")
    assert text.subject == "Set aside the candidate of step 4: the branch changed"
    assert text.trailers["Skillopt-Action"] == "set_aside"


def test_taking_in_base_names_the_skill_that_changed() -> None:
    text = took_in_base("main", "SKILL.md")
    assert text.subject == "Take in main: SKILL.md changed there"


def test_a_candidate_tells_its_edits_and_their_reason(make_record: Make) -> None:
    text = proposed(make_record())
    assert text.subject == "Step 3: Be kind"
    assert "Before this change the model scored 0.500 on 2 training tasks." in text.body
    assert "- add “Be kind” (seen in 3 failed attempts)" in text.body
    assert "Why: Kindness was missing." in text.body
    assert "Skillopt-Score-After" not in text.trailers


def test_a_merge_carries_scores_flips_and_usage(make_record: Make, make_decision: Make) -> None:
    text = merged(make_record(), make_decision(), 1.26)
    assert text.subject == "Merge step 3 (0.500 → 0.750): Be kind"
    assert text.body == (
        "Verdict: merged, new best. Candidate 0.7500 is above 0.5000.\n\n"
        "Fixed: s1, s2. Broken: s3.\n\n"
        "Used 7 calls, 1,234 tokens, cost $0.0125."
    )


def test_the_trailers_carry_every_fact(make_record: Make, make_decision: Make) -> None:
    assert merged(make_record(), make_decision(), 1.26).trailers == {
        "Skillopt-Step": "3",
        "Skillopt-Epoch": "2",
        "Skillopt-Action": "accept_new_best",
        "Skillopt-Score-Before": "0.5",
        "Skillopt-Score-After": "0.75",
        "Skillopt-Tasks": "4",
        "Skillopt-Edits": "1",
        "Skillopt-Skill-Sha256": "b" * 64,
        "Skillopt-Config-Sha256": "c" * 64,
        "Skillopt-Tokens": "1234",
        "Skillopt-Cost-Usd": "0.012500",
        "Skillopt-Seconds": "1.3",
    }


def test_a_revert_names_its_commit_and_the_skill_as_it_was(
    make_record: Make, make_decision: Make
) -> None:
    text = reverted(make_record(), make_decision(action="reject"), "d" * 40, 1.0)
    assert text.subject == "Revert step 3 (0.500 → 0.750): Be kind"
    assert text.body.startswith(f"This reverts commit {'d' * 40}.\n\nVerdict: reverted.")
    assert text.trailers["Skillopt-Skill-Sha256"] == "a" * 64


def test_a_step_without_a_candidate_has_no_score(make_record: Make, make_decision: Make) -> None:
    decision = make_decision(
        action="skip_no_patches", reason="no edit was proposed", score_after=None, measurement=None
    )
    text = unchanged(make_record(), decision, 1.0)
    assert text.subject == "Step 3: no edit was proposed"
    assert "Fixed" not in text.body
    assert text.trailers["Skillopt-Score-After"] == "none"


def test_a_measurement_that_was_reused_says_so(make_record: Make, make_decision: Make) -> None:
    text = merged(make_record(), make_decision(reused_from=2), 1.0)
    assert "Measured in step 2, not again." in text.body


def test_a_simulated_step_says_so_in_words_and_as_a_fact(
    make_record: Make, make_decision: Make
) -> None:
    for text in (
        proposed(make_record(simulated=True)),
        merged(make_record(simulated=True), make_decision(), 1.0),
    ):
        assert "simulated" in text.body
        assert text.trailers["Skillopt-Simulated"] == "true"


def test_an_unknown_cost_is_not_zero(make_record: Make, make_decision: Make) -> None:
    usage = make_record().usage.model_copy(update={"cost_usd": None})
    text = merged(make_record(usage=usage), make_decision(), 1.0)
    assert text.trailers["Skillopt-Cost-Usd"] == "unknown"


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("append", "add “new”"),
        ("insert_after", "after “old” add “new”"),
        ("replace", "replace “old” by “new”"),
        ("delete", "drop “old”"),
        ("@eve", "unknown operation “(at)eve”"),
    ],
)
def test_an_edit_is_told_in_words(op: str, words: str, make_edit: Make) -> None:
    edit = make_edit(
        op=op, target="## old", content="- new\n", source_type="success", support_count=1
    )
    assert edit_text(edit) == f"{words} (seen in 1 successful attempt)"


def test_the_gist_has_what_the_edits_say(make_edit: Make) -> None:
    drop = make_edit(op="delete", target="* Old rule.", content="")
    assert gist([make_edit(), drop]) == "Be kind; drop “Old rule”"
    assert gist([]) == "no change"


def test_hostile_text_is_inert_in_every_message(
    make_record: Make, make_proposal: Make, make_edit: Make, make_decision: Make
) -> None:
    proposal = make_proposal(edits=(make_edit(content=ATTACK),), reasoning=ATTACK)
    record, decision = make_record(proposal=proposal), make_decision(fixed=(ATTACK,))
    for text in (proposed(record), merged(record, decision, 1.0)):
        whole = wrapped(text)
        assert parse_trailers(whole) == text.trailers
        for acting in (
            "@octocat",
            "#1",
            "https://",
            "[skip ci]",
            "\x1b",
            "\u202e",
            "\nCo-authored",
        ):
            assert acting not in whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text())
def test_no_text_can_forge_a_trailer(
    make_record: Make, make_proposal: Make, make_edit: Make, content: str, why: str
) -> None:
    edits = (make_edit(content=content, target=content),)
    text = proposed(make_record(proposal=make_proposal(edits=edits, reasoning=why)))
    assert parse_trailers(wrapped(text)) == text.trailers
    assert len(wrapped(text).split("\n")[0]) <= 72


def test_many_names_are_counted_not_listed(make_record: Make, make_decision: Make) -> None:
    decision = make_decision(fixed=tuple(f"t{number}" for number in range(15)))
    assert "t11 and 3 more. Broken" in merged(make_record(), decision, 1.0).body

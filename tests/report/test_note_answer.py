"""Answers to reviewers' notes, and what commits say of them."""

import pytest
from hostile import HOSTILE
from run_views import SHA

from skillopt_ci.ledger.records import (
    Decision,
    EditRecord,
    ProposalRecord,
    ReviewerNoteRecord,
    RolloutRecord,
    StepRecord,
)
from skillopt_ci.report.comment import note_answers
from skillopt_ci.report.text import Links
from skillopt_ci.report.words import Fate, guidance_lines, note_outcomes

LINKS = Links("https://github.com/octo/skills")
EDIT = EditRecord(op="append", content="- Be kind", status="applied_append", note_ids=("issue-1",))


def step(
    action: str = "accept",
    proposed: int = 1,
    taken: int = 1,
    edit: EditRecord = EDIT,
    text: str = "Kind!",
) -> StepRecord:
    note = ReviewerNoteRecord(id="issue-1", author="wen", text=text, proposed=proposed, taken=taken)
    proposal = ProposalRecord(
        rollout=RolloutRecord(hard=0.5, soft=0.5, n=4, errors=0),
        n_failure_patches=1,
        n_success_patches=0,
        n_edits_merged=1,
        edit_budget=4,
        selection="untouched",
        edits=(edit,),
        reviewer_notes=(note,),
        skill_before="a",
        skill_after="b" if taken else "a",
        config_sha256="c",
    )
    decision = Decision(
        action=action,  # type: ignore[arg-type]
        reason="so",
        metric="hard",
        score_before=0.5,
        score_after=0.625,
        compared=8,
    )
    return StepRecord(
        step=3, epoch=1, step_in_epoch=3, simulated=False, proposal=proposal, decision=decision
    )


def answer(record: StepRecord, commit: str = SHA) -> str:
    return note_answers("demo", record, commit, LINKS)["issue-1"]


def test_an_answer_begins_with_a_marker_of_its_own() -> None:
    assert answer(step()).startswith(
        "<!-- skillopt-ci:v1 key=demo/note%20issue-1 -->\n\n**Merged.**"
    )


def test_a_merged_note_is_told_its_scores_edits_and_commit() -> None:
    text = answer(step())
    assert "0.500 → 0.625 on 8 tasks" in text
    assert "add “Be kind”" in text
    assert f"/commit/{SHA}" in text


@pytest.mark.parametrize(
    ("record", "fate", "word"),
    [
        (step("reject"), Fate.REVERTED, "**Reverted.**"),
        (step().model_copy(update={"decision": None}), Fate.IN_FLIGHT, "**In flight.**"),
        (step("reject", taken=0), Fate.NOT_CARRIED_OUT, "proposed 1 edit to follow it"),
        (step("reject", proposed=0, taken=0), Fate.NOT_TAKEN_UP, "**Not taken up.**"),
    ],
)
def test_every_fate_has_its_words(record: StepRecord, fate: Fate, word: str) -> None:
    assert [one.fate for one in note_outcomes(record)] == [fate]
    assert word in answer(record)
    assert f"({fate})" in guidance_lines(record)[0]


def test_the_guards_reason_is_told() -> None:
    refused = EDIT.model_copy(update={"status": "skipped_guard", "reason": "it has a secret"})
    text = answer(step("reject", taken=0, edit=refused))
    assert "none went into the candidate: it has a secret" in text
    assert "(not applied)" in text


def test_simulated_models_are_named() -> None:
    assert "simulated" in answer(step().model_copy(update={"simulated": True}))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_edits_are_inert(text: str) -> None:
    said = answer(step(edit=EDIT.model_copy(update={"content": text, "target": text})))
    assert "@everyone" not in said
    assert "](http" not in said.replace(f"](https://github.com/octo/skills/commit/{SHA}", "")
    assert "<img" not in said


@pytest.mark.parametrize("text", HOSTILE)
def test_commits_tell_hostile_notes_in_one_inert_line(text: str) -> None:
    (line,) = guidance_lines(step(text=text))
    assert "\n" not in line
    assert "@everyone" not in line

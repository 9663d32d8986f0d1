from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.ledger.records import LearningRateRecord, PatternRecord, TaskOutcome
from skillopt_ci.report.terminal import step_rows_in_full
from skillopt_ci.rollout.types import Status

if TYPE_CHECKING:
    from tests.report.conftest import Make


def test_all_of_a_judged_step(make_record: Make, make_decision: Make) -> None:
    rows = step_rows_in_full(make_record(decision=make_decision()))
    assert [label for label, _ in rows] == [
        *("training tasks", "failed", "proposals", "reasoning", "edit 1", "verdict", "because"),
        *("before", "after", "fixed", "broken", "used", "  analyst"),
    ]
    assert dict(rows)["failed"] == "t1"
    assert dict(rows)["  analyst"] == "1 call, 34 tokens, cost $0.00"


def test_a_step_in_flight_has_no_verdict_yet(make_record: Make) -> None:
    rows = dict(step_rows_in_full(make_record()))
    assert rows["verdict"] == "in flight"
    assert "before" not in rows


def test_every_edit_tells_what_became_of_it(
    make_record: Make, make_proposal: Make, make_edit: Make
) -> None:
    edits = (make_edit(), make_edit(op="delete", target="x", status="skipped_protected_region"))
    rows = dict(step_rows_in_full(make_record(proposal=make_proposal(edits=edits))))
    assert rows["edit 1"].startswith("applied: add “Be kind”")
    assert rows["edit 2"].startswith("skipped protected region: drop “x”")


def test_an_edit_names_the_notes_that_it_follows(
    make_record: Make, make_proposal: Make, make_edit: Make
) -> None:
    proposal = make_proposal(edits=(make_edit(note_ids=("review-7",)),))
    rows = step_rows_in_full(make_record(proposal=proposal))
    assert ("", "follows somebody (review-7)") in rows


def test_patterns_and_what_could_not_be_measured_are_named(
    make_record: Make, make_proposal: Make
) -> None:
    rollout = make_proposal().rollout
    lost = TaskOutcome(id="t9", status=Status.ERROR, hard=0, soft=0)
    proposal = make_proposal(
        rollout=rollout.model_copy(update={"tasks": (*rollout.tasks, lost)}),
        patterns=(PatternRecord(description="rude", count=2),),
    )
    rows = dict(step_rows_in_full(make_record(proposal=proposal)))
    assert (rows["pattern"], rows["not measured"]) == ("rude (×2)", "t9")


def test_a_long_list_is_cut(make_record: Make, make_decision: Make) -> None:
    fixed = tuple(f"s{number}" for number in range(34))
    rows = dict(step_rows_in_full(make_record(decision=make_decision(fixed=fixed))))
    assert rows["fixed"].endswith("s29 and 4 more")


def test_a_reused_measurement_names_its_step(make_record: Make, make_decision: Make) -> None:
    rows = dict(step_rows_in_full(make_record(decision=make_decision(reused_from=1))))
    assert rows["measured in"] == "step 1: the text was the same"


def test_a_learning_rate_of_the_optimizers_own_is_shown_with_its_reasons(
    make_record: Make, make_proposal: Make
) -> None:
    rate = LearningRateRecord(
        learning_rate=2, available=5, reasoning="few causes", confidence="low", risk_notes=("size",)
    )
    proposal = make_proposal(learning_rate=rate, edit_budget=2)
    rows = dict(step_rows_in_full(make_record(proposal=proposal)))
    assert rows["step size"] == "2 of 5, low confidence: few causes"
    assert rows["risk"] == "size"
    assert "at most 2 to apply, chosen by the optimizer" in rows["proposals"]


def test_a_step_without_a_limit_says_so(make_record: Make, make_proposal: Make) -> None:
    rows = dict(step_rows_in_full(make_record(proposal=make_proposal(edit_budget=None))))
    assert rows["proposals"].endswith("no limit")

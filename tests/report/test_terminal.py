import json
from dataclasses import asdict

import pytest
from rollout_values import attempt, summed

from skillopt_ci.ledger.evidence import LearningRateRecord, PatternRecord, TaskOutcome
from skillopt_ci.ledger.records import HistoryEntry, State, StepRecord
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.report import terminal
from skillopt_ci.report.terminal import as_values, estimate_text, remarks, rows_in_full, status_rows
from skillopt_ci.report.view import RunView, StepPlace, event_view
from skillopt_ci.rollout.metrics import estimate_mean
from skillopt_ci.rollout.types import Limit, Status


def glance(record: StepRecord, state: State, seconds: float = 1.0) -> tuple[tuple[str, str], ...]:
    return terminal.rows_at_a_glance(event_view(record, StepPlace(seconds=seconds)), state)


def test_all_of_a_judged_step(make_record, make_decision):
    rows = rows_in_full(event_view(make_record(decision=make_decision())))
    assert [label for label, _ in rows] == [
        *("training tasks", "failed", "proposals", "reasoning", "edit 1", "verdict", "because"),
        *("selection tasks", "fixed", "broken", "used"),
    ]
    assert dict(rows)["failed"] == "t1"


def test_a_step_in_flight_has_no_verdict_yet(make_record, make_proposal):
    rows = dict(rows_in_full(event_view(make_record())))
    assert rows["verdict"] == "in flight"
    assert "selection tasks" not in rows
    rows = dict(rows_in_full(event_view(make_record(proposal=make_proposal(edit_budget=None)))))
    assert rows["proposals"] == "2 (patches: 1 from failures, 0 from successes), no limit"


def test_every_edit_tells_what_became_of_it(make_record, make_proposal, make_edit):
    edits = (make_edit(), make_edit(op="delete", target="x", status="skipped_protected_region"))
    rows = dict(rows_in_full(event_view(make_record(proposal=make_proposal(edits=edits)))))
    assert rows["edit 1"].startswith("applied: add “Be kind”")
    assert rows["edit 2"].startswith("not applied (protected region): drop “x”")


def test_patterns_and_what_could_not_be_measured_are_named(make_record, make_proposal):
    rollout = make_proposal().rollout
    lost = [TaskOutcome(id=one, status=Status(one), hard=0, soft=0) for one in ("error", "refused")]
    proposal = make_proposal(
        rollout=rollout.model_copy(update={"tasks": (*rollout.tasks, *lost)}),
        patterns=tuple(PatternRecord(description="rude", count=count) for count in (2, 1)),
    )
    rows = dict(rows_in_full(event_view(make_record(proposal=proposal))))
    assert (rows["pattern"], rows["not measured"]) == ("rude (×3)", "error")
    assert (rows["failed"], rows["prompt refused"]) == ("t1, refused", "refused")


def test_a_long_list_is_cut(make_record, make_decision):
    fixed = tuple(f"s{number}" for number in range(34))
    rows = dict(rows_in_full(event_view(make_record(decision=make_decision(fixed=fixed)))))
    assert rows["fixed"].endswith("s29 and 4 more")


def test_a_learning_rate_of_the_optimizers_own_is_shown_with_reasons(make_record, make_proposal):
    rate = LearningRateRecord(
        learning_rate=2, available=5, reasoning="few causes", confidence="low", risk_notes=("size",)
    )
    proposal = make_proposal(learning_rate=rate, edit_budget=2)
    rows = dict(rows_in_full(event_view(make_record(proposal=proposal))))
    assert (rows["step size"], rows["risk"]) == ("2 of 5, low confidence: few causes", "size")
    assert "at most 2 to apply, chosen by the optimizer" in rows["proposals"]


def test_a_merged_step_at_a_glance(make_record, make_decision, state):
    assert glance(make_record(decision=make_decision()), state, 12.34) == (
        ("verdict", "merged, new best"),
        ("because", "candidate 0.7500 is above 0.5000"),
        ("selection tasks", "0.500 → 0.750 [0.30, 0.95] n=4 (hard)"),
        ("flips", "2 fixed, 1 broken"),
        ("training tasks", "0.500 [0.09, 0.91] n=2"),
        ("edits", "1 of 2 proposals"),
        ("", "Be kind"),
        ("best so far", "0.750 (step 3)"),
        ("used", "7 calls, 1,234 tokens, cost $0.0125, 12.3 s"),
    )


def test_flips_and_errors_at_a_glance(make_record, make_proposal, make_decision, state):
    decision = make_decision(action="skip_no_patches", score_after=None, measurement=None)
    record = make_record(proposal=make_proposal(n_edits_merged=0, edits=()))
    rows = dict(glance(record.model_copy(update={"decision": decision}), state))
    assert rows["verdict"] == "nothing proposed"
    assert (rows["edits"], rows["selection tasks"]) == ("none proposed", "not measured")
    assert "flips" not in rows
    measured = make_decision().measurement.model_copy(update={"errors": ("s8", "s9")})
    rows = dict(glance(make_record(decision=make_decision(measurement=measured)), state, 1.0))
    assert rows["not measured"] == "s8, s9"


COMMIT = "0123456789abcdef"


def run_of(state: State, *history: HistoryEntry) -> RunView:
    return RunView(state, history, commit=COMMIT)


def test_steps_are_counted_by_what_became_of_them(state, make_entry):
    start = make_entry(kind="start", action="start")
    judged = [make_entry(action=one) for one in ("accept_new_best", "accept", "reject")]
    empty = [make_entry(action=one, score_after=None) for one in ("reject", "skip_no_patches")]
    assert run_of(state, start, *judged, *empty).counts == {"merged": 2, "reverted": 1, "empty": 2}


def test_the_run_at_a_glance_also_before_its_first_step_and_in_numbers(state, make_entry):
    start = make_entry(kind="start", score_after=0.5)
    assert status_rows(run_of(state, start, make_entry())) == (
        ("skill", "SKILL.md"),
        ("branch at", "0123456789"),
        ("selection", "0.500 [0.15, 0.85] n=4 → 0.750 [0.30, 0.95] n=4 (step 3)"),
        ("steps", "1 merged, 0 reverted"),
        ("last step", "3 (epoch 2)"),
        ("used", "20 calls, 4,100 tokens, cost unknown (no price known)"),
    )
    rows = dict(status_rows(run_of(state.model_copy(update={"step": 0}))))
    assert rows["selection"].startswith("– → 0.750")
    assert rows["last step"] == "none yet"
    rows = dict(status_rows(run_of(state, make_entry(action="skip_no_patches", score_after=None))))
    assert rows["steps"] == "0 merged, 0 reverted, 1 without a candidate"
    start, used = make_entry(kind="start", score_after=0.5), Usage(calls=1, cost_usd=None)
    judged = state.model_copy(update={"accounts": {Account("judge", "judge"): used}})
    found = terminal.status_json(run_of(judged, start, make_entry()), {})
    assert found["accounts"] == [{"role": "judge", "stage": "judge", **asdict(used)}]
    assert (found["score_initial"], found["score_current"], found["merged"]) == (0.5, 0.75, 1)
    assert (found["commit"], found["cost_usd"], found["tokens"]) == (COMMIT, None, 4100)


def test_a_step_is_a_row_under_the_headings(make_entry):
    row = terminal.log_row(make_entry())
    assert row == ("3", "2", "0.500", "0.750", "0.750", "1", "120", "merged, new best")
    assert len(row) == len(terminal.LOG_HEADINGS)


@pytest.mark.parametrize(
    ("kind", "action", "after", "cells"),
    [
        ("set_aside", "set_aside", 0.75, ("–", "0.750", "set aside: so it is")),
        ("step", "reject", None, ("3", "–", "nothing changed")),
        ("slow_update", "reject", 0.5, ("–", "0.500", "end of epoch: reverted")),
        ("slow_update", "no_content", None, ("–", "–", "end of epoch: so it is")),
    ],
)
def test_what_is_no_verdict_on_a_step_tells_its_reason(make_entry, kind, action, after, cells):
    row = terminal.log_row(
        make_entry(kind=kind, action=action, score_after=after, reason="so it is")
    )
    assert (row[0], row[3], row[-1]) == cells


MIXED = [
    attempt("a", 1),
    attempt("a", 0, Status.LIMIT, limit=Limit.STEPS),
    attempt("b", 0, Status.ERROR, reason="no route"),
    attempt("b", 0, Status.ERROR, reason="no route"),
    attempt("c", 1),
    attempt("c", 0, Status.GRADER_ERROR, reason="no verdict"),
]


def test_a_mean_is_told_with_what_is_known_of_it():
    assert estimate_text(estimate_mean([1, 0], shares=True)) == "0.500 [0.09, 0.91] n=2"
    assert estimate_text(estimate_mean([1.0])) == "1.000 n=1"
    assert estimate_text(estimate_mean([])) == "– n=0"
    assert estimate_text(estimate_mean([0, 1, 1], ["x", "x", "y"])).endswith(" n=3 in 2 clusters")


def test_everything_worth_knowing_is_remarked():
    assert list(remarks(summed(MIXED))) == [
        (
            "incomplete: 3 attempts of 6 not measured, and left out; "
            "counted as failures: 0.333 (soft 0.333)"
        ),
        "  2 × error: no route",
        "  1 × grader_error: no verdict",
        "never measured: b",
        "ended by the limit of steps: 33%, 100% of the unsolved",
    ]


def test_nothing_is_remarked_where_all_went_well():
    assert list(remarks(summed([attempt("a", 1), attempt("b")]), all_of_them=True)) == []
    found = list(remarks(summed([attempt("a", 1), attempt("a"), attempt("b", 1), attempt("b", 1)])))
    least, always = found
    assert least == "solved at least once (pass@k): 1: 0.750, 2: 1.000"
    assert always == "solved every time (pass^k): 1: 0.750, 2: 0.500"


def test_values_are_strict_json():
    found = json.loads(json.dumps(as_values(summed(MIXED)), allow_nan=False))
    assert found["error_table"][0] == {"status": "error", "reason": "no route", "count": 2}
    assert found["limits"] == {"steps": {"of_all": 1 / 3, "of_unsolved": 1.0}}
    assert found["hard_estimate"]["tasks"] == 2
    assert json.loads(json.dumps(as_values(summed([])), allow_nan=False))["complete"] is True

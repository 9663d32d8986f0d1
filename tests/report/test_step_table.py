from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.ledger.records import State
from skillopt_ci.report.terminal import step_rows

if TYPE_CHECKING:
    from tests.report.conftest import Make


def test_a_merged_step_at_a_glance(make_record: Make, make_decision: Make, state: State) -> None:
    assert step_rows(make_record(), make_decision(), state, 12.34) == (
        ("verdict", "merged, new best"),
        ("because", "candidate 0.7500 is above 0.5000"),
        ("training tasks", "0.500 [0.09, 0.91] n=2"),
        ("edits", "1 of 2 proposals"),
        ("", "Be kind"),
        ("selection", "0.500 → 0.750 [0.30, 0.95] n=4"),
        ("flips", "2 fixed, 1 broken"),
        ("best so far", "0.750 (step 3)"),
        ("used", "7 calls, 1,234 tokens, cost $0.0125, 12.3 s"),
    )


def test_without_a_candidate_there_is_nothing_to_flip(
    make_record: Make, make_proposal: Make, make_decision: Make, state: State
) -> None:
    decision = make_decision(action="skip_no_patches", score_after=None, measurement=None)
    record = make_record(proposal=make_proposal(n_edits_merged=0, edits=()))
    rows = dict(step_rows(record, decision, state, 1.0))
    assert rows["verdict"] == "nothing proposed"
    assert (rows["edits"], rows["selection"]) == ("none proposed", "not measured")
    assert "flips" not in rows


def test_it_says_where_the_training_tasks_met_an_older_skill(
    make_record: Make, make_proposal: Make, make_decision: Make, state: State
) -> None:
    proposal = make_proposal(skill_attempted="d" * 64)
    rows = dict(step_rows(make_record(proposal=proposal), make_decision(), state, 1.0))
    assert rows["training tasks"] == "0.500 [0.09, 0.91] n=2, one version earlier"


def test_errors_are_shown_beside_the_score(
    make_record: Make, make_decision: Make, state: State
) -> None:
    decision = make_decision()
    measured = decision.measurement.model_copy(update={"errors": ("s8", "s9")})
    rows = dict(step_rows(make_record(), make_decision(measurement=measured), state, 1.0))
    assert rows["selection"].endswith("n=4, 2 errors")


def test_a_reused_measurement_is_called_one(
    make_record: Make, make_decision: Make, state: State
) -> None:
    rows = dict(step_rows(make_record(), make_decision(reused_from=2), state, 1.0))
    assert rows["selection"].endswith("measured in step 2")

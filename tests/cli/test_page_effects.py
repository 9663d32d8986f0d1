"""What all comparisons say of single edits."""

from run_views import plain_run

from skillopt_ci.cli.evidence import edit_effects
from skillopt_ci.ledger.records import EditRecord, GateRecord, StepRecord


def step(number: int, content: str, gain: float) -> StepRecord:
    record = plain_run(number).steps[-1]
    edit = EditRecord(op="append", content=content, status="applied_append")
    gate = GateRecord(
        policy="paired", planned=40, compared=40, difference=gain, standard_error=0.05
    )
    assert record.decision is not None
    return record.model_copy(
        update={
            "proposal": record.proposal.model_copy(update={"edits": (edit,)}),
            "decision": record.decision.model_copy(update={"gate": gate}),
        }
    )


def test_an_edit_that_gained_is_believed_to_help_and_more_so_with_time() -> None:
    steps = [step(number, "Be brief.", 0.1) for number in range(1, 7)]
    found = edit_effects(steps)[1, 0]
    assert [one.step for one in found] == [2, 3, 4, 5, 6]
    assert all(one.helpful > 0.5 for one in found)
    assert [one.sd for one in found] == sorted((one.sd for one in found), reverse=True)


def test_edits_are_told_apart() -> None:
    found = edit_effects([step(1, "Good.", 0.2), step(2, "Bad.", -0.2)])
    assert found[1, 0][-1].mean > 0 > found[2, 0][-1].mean


def test_without_comparisons_nothing_is_believed() -> None:
    assert edit_effects([]) == {}
    assert edit_effects(plain_run(2).steps) == {}


def test_a_long_run_is_told_by_its_newest_steps() -> None:
    steps = [step(number, f"Rule {number}.", 0.1) for number in range(1, 141)]
    found = edit_effects(steps)
    assert (140, 0) in found
    assert (1, 0) not in found
    assert len(found) == 120

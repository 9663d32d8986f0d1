import pytest
from pydantic import ValidationError
from records import proposal_record

from skillopt_ci.ledger import evidence
from skillopt_ci.ledger.records import Decision, HistoryEntry
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import Status


def decision(action: str) -> Decision:
    given = {"action": action, "metric": "hard", "score_before": 0, "score_after": None}
    return Decision.model_validate({**given, "reason": ""})


def test_noise_of_floating_point_is_not_written():
    assert evidence.as_recorded(Usage(cost_usd=0.1 + 0.2)).cost_usd == 0.3
    found = evidence.Measurement(hard=0, soft=0, score=0, tasks={"a": (0.0, 0.5)}, errors=("b",))
    assert found.n == 1
    assert evidence.Measurement.model_validate_json(found.model_dump_json()) == found


def test_a_record_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        evidence.Measurement(hard=0, soft=0, score=0).hard = 1.0
    entry = {"kind": "start", "step": 0, "epoch": 0, "action": "start", "later": 1}
    with pytest.raises(ValidationError, match="later"):
        HistoryEntry.model_validate(entry)


@pytest.mark.parametrize(("status", "failed"), [(Status.SCORED, True), (Status.ERROR, False)])
def test_an_error_is_no_failure_of_the_model(status, failed):
    assert evidence.TaskOutcome(id="t", status=status, hard=0, soft=0).failed is failed


@pytest.mark.parametrize(
    ("status", "applied"),
    [("applied_insert_after_fallback_append", True), ("skipped_empty_content", False)],
)
def test_an_edit_was_applied_or_skipped(status, applied):
    assert evidence.EditRecord(op="append", status=status).applied is applied


def test_a_proposal_changed_the_skill_or_not():
    assert proposal_record(skill_after="b").changed
    assert not proposal_record(skill_after="a").changed


@pytest.mark.parametrize(
    ("action", "merged"),
    [("accept", True), ("accept_new_best", True), ("reject", False), ("skip_no_patches", False)],
)
def test_only_what_was_accepted_was_merged(action, merged):
    assert decision(action).stays is merged


@pytest.mark.parametrize(
    ("action", "score_after", "words"),
    [
        ("accept_new_best", 0.75, "merged, new best"),
        ("accept", 0.75, "merged"),
        ("reject", 0.25, "reverted"),
        ("reject", None, "nothing changed"),
        ("skip_no_patches", None, "nothing proposed"),
        ("an action of a later version", 0.5, "an action of a later version"),
    ],
)
def test_an_action_is_put_into_words(action, score_after, words):
    entry = HistoryEntry(kind="step", step=1, epoch=1, action=action, score_after=score_after)
    assert entry.verdict == words

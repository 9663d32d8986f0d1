"""What a verdict changes in the state."""

import pytest

from skillopt_ci.ledger.records import Decision, Measurement, Snapshot
from skillopt_ci.training.landing import snapshots

MEASURED = Measurement(hard=0.5, soft=0.5, score=0.5)
AFTER = Snapshot(sha256="b" * 64, step=2, origin="step 2", measurement=MEASURED)
DECISION = Decision(action="accept", reason="", metric="hard", score_before=0.25, score_after=0.5)


@pytest.mark.parametrize("action", ["accept", "force_accept"])
def test_what_stays_becomes_the_current_skill(action: str) -> None:
    assert snapshots(DECISION.model_copy(update={"action": action}), AFTER) == {"current": AFTER}


@pytest.mark.parametrize("action", ["accept_new_best", "force_accept"])
def test_what_beats_the_best_becomes_that_too(action: str) -> None:
    decision = DECISION.model_copy(update={"action": action, "beats_best": True})
    assert snapshots(decision, AFTER) == {"current": AFTER, "best": AFTER}


def test_what_goes_changes_nothing() -> None:
    assert snapshots(DECISION.model_copy(update={"action": "reject"}), AFTER) == {}


def test_what_was_not_measured_changes_nothing() -> None:
    assert snapshots(None, None) == {}
    assert snapshots(DECISION, None) == {}

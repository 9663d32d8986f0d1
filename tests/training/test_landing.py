"""What a verdict changes in the state."""

import pytest

from skillopt_ci.ledger.records import Decision, Measurement, Snapshot, State
from skillopt_ci.skill.document import sha256
from skillopt_ci.training.state import decided_snapshots

MEASURED = Measurement(hard=0.5, soft=0.5, score=0.5)
SKILL = "# B\n"
AFTER = Snapshot(sha256=sha256(SKILL), step=2, origin="step 2", measurement=MEASURED)
DECISION = Decision(
    action="accept",
    reason="",
    metric="hard",
    score_before=0.25,
    score_after=0.5,
    measurement=MEASURED,
)
BEFORE = Snapshot(
    sha256="a" * 64,
    step=1,
    origin="step 1",
    measurement=Measurement(hard=0.25, soft=0.25, score=0.25),
)
STATE = State(
    run="demo",
    skill="SKILL.md",
    step=1,
    epoch=1,
    current=BEFORE,
    best=BEFORE,
    measured_under="",
    config_sha256="",
)


def changed(state: State, decision: Decision | None) -> dict[str, object]:
    return decided_snapshots(state, decision, SKILL, 2, "step 2")


@pytest.mark.parametrize("action", ["accept", "force_accept"])
def test_what_stays_becomes_the_current_skill(action: str) -> None:
    decision = DECISION.model_copy(update={"action": action})
    assert changed(STATE, decision) == {"current": AFTER}


@pytest.mark.parametrize("action", ["accept_new_best", "force_accept"])
def test_what_beats_the_best_becomes_that_too(action: str) -> None:
    decision = DECISION.model_copy(update={"action": action, "beats_best": True})
    assert changed(STATE, decision) == {"current": AFTER, "best": AFTER}


def test_what_goes_changes_nothing() -> None:
    assert changed(STATE, DECISION.model_copy(update={"action": "reject"})) == {}


def test_what_was_not_measured_changes_nothing() -> None:
    assert changed(STATE, None) == {}
    assert changed(STATE, DECISION.model_copy(update={"measurement": None})) == {}


def test_an_accepted_skill_is_held_against_its_baseline() -> None:
    baseline = Measurement(hard=0.4, soft=0.4, score=0.4, first_attempt=1)
    decision = DECISION.model_copy(update={"baseline": baseline})
    after = AFTER.model_copy(update={"measurement": baseline})
    assert changed(STATE, decision) == {"current": after}


def test_attempts_added_to_the_skill_that_stays_count_from_then_on() -> None:
    again = Measurement(hard=0.3, soft=0.3, score=0.3, attempts={"a": 2})
    decision = DECISION.model_copy(update={"action": "reject", "incumbent": again})
    known = BEFORE.model_copy(update={"measurement": again})
    assert changed(STATE, decision) == {"current": known, "best": known}
    other = STATE.model_copy(update={"best": AFTER})
    assert changed(other, decision) == {"current": known}

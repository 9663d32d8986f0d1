from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_ci.cli.build import open_session
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.train import outcome_json, print_outcome, summary
from skillopt_ci.ledger.records import UsageRecord
from skillopt_ci.progress import silent
from skillopt_ci.training.trainer import StepOutcome, advance


@pytest.fixture
def settings(fresh: Path) -> Globals:
    return Globals(environ=dict(os.environ), cwd=fresh)


@pytest.fixture
def outcome(settings: Globals) -> StepOutcome:
    session = open_session(settings, silent)
    found = asyncio.run(advance(session, session.clock()))
    assert isinstance(found, StepOutcome)
    return found


def test_the_object_has_plain_values_that_agree_with_the_record(outcome: StepOutcome) -> None:
    found = json.loads(json.dumps(outcome_json(outcome)))
    assert found["action"] == outcome.decision.action
    assert found["score_after"] == outcome.decision.score_after
    assert found["tokens"] == outcome.record.usage.usage().tokens > 0


def test_an_unknown_cost_is_null(outcome: StepOutcome) -> None:
    usage = UsageRecord(calls=3, cost_usd=None)
    record = outcome.record.model_copy(update={"usage": usage})
    assert outcome_json(replace(outcome, record=record))["cost_usd"] is None


def test_a_step_without_a_candidate_has_no_score(outcome: StepOutcome) -> None:
    nothing = {"action": "skip_no_patches", "score_after": None, "measurement": None}
    empty = replace(outcome, decision=outcome.decision.model_copy(update=nothing))
    assert outcome_json(empty)["score_after"] is None
    assert summary(empty).endswith(": nothing proposed, 0.062 → –")


def test_a_hostile_reason_reaches_no_terminal(
    outcome: StepOutcome, settings: Globals, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "\x1b[2J\n::error::pwned"
    hostile = replace(outcome, decision=outcome.decision.model_copy(update={"reason": reason}))
    print_outcome(hostile, settings)
    told = capsys.readouterr().out
    assert "pwned" in told
    assert "\x1b" not in told
    assert "::error" not in told

"""Records as a step would leave them, with what a test cares about replaced; and a browser."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from records import proposal_record, state_of

from skillopt_ci.ledger import evidence
from skillopt_ci.ledger.records import Decision, HistoryEntry, Snapshot, State, StepRecord
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import Status

Make = Callable[..., Any]
BEFORE, AFTER, CONFIG = "a" * 64, "b" * 64, "c" * 64
TASKS = {f"s{number}": (float(number < 3), float(number < 3)) for number in range(4)}
MEASURED = evidence.Measurement(hard=0.75, soft=0.75, score=0.75, tasks=TASKS)
EDIT = evidence.EditRecord(
    op="append", content="- Be kind.\n", support_count=3, status="applied_append"
)


def copies(record: BaseModel) -> Make:

    def make(**changes: object) -> BaseModel:
        return record.model_copy(update=changes)

    return make


@pytest.fixture
def measurement() -> evidence.Measurement:
    return MEASURED


@pytest.fixture
def make_edit() -> Make:
    return copies(EDIT)


@pytest.fixture
def make_proposal() -> Make:
    failed = evidence.TaskOutcome(id="t1", status=Status.SCORED, hard=0.0, soft=0.0)
    solved = evidence.TaskOutcome(id="t2", status=Status.SCORED, hard=1.0, soft=1.0)
    proposal = proposal_record(
        rollout=evidence.RolloutRecord(hard=0.5, soft=0.5, n=2, errors=0, tasks=(failed, solved)),
        n_edits_merged=2,
        reasoning="Kindness was missing.",
        edits=(EDIT,),
        diff="--- a/SKILL.md\n+++ b/SKILL.md\n",
        skill_before=BEFORE,
        skill_after=AFTER,
        config_sha256=CONFIG,
        usage={"analyst": Usage(calls=1, prompt_tokens=30, completion_tokens=4)},
    )
    return copies(proposal)


@pytest.fixture
def make_decision() -> Make:
    decision = Decision(
        action="accept_new_best",
        reason="candidate 0.7500 is above 0.5000",
        metric="hard",
        score_before=0.5,
        score_after=0.75,
        measurement=MEASURED,
        compared=4,
        fixed=("s1", "s2"),
        broken=("s3",),
    )
    return copies(decision)


@pytest.fixture
def make_record(make_proposal: Make) -> Make:
    record = StepRecord(
        step=3,
        epoch=2,
        step_in_epoch=1,
        simulated=False,
        proposal=make_proposal(),
        usage=Usage(calls=7, prompt_tokens=1200, completion_tokens=34, cost_usd=0.0125),
    )
    return copies(record)


@pytest.fixture
def make_entry() -> Make:
    entry = HistoryEntry(
        kind="step",
        step=3,
        epoch=2,
        action="accept_new_best",
        reason="it was better",
        score_before=0.5,
        score_after=0.75,
        best_score=0.75,
        tasks=4,
        edits=1,
        skill_sha256=AFTER,
        words=120,
        config_sha256=CONFIG,
    )
    return copies(entry)


@pytest.fixture
def state() -> State:
    snapshot = Snapshot(sha256=AFTER, step=3, origin="step 3", measurement=MEASURED)
    paid = Usage(calls=20, prompt_tokens=4000, completion_tokens=100, cost_usd=None)
    return state_of(snapshot, epoch=2, usage=paid)

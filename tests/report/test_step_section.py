from dataclasses import replace

import pytest
from run_views import REPOSITORY, SHA, entry, plain_run, record

from skillopt_ci.ledger.records import ReviewerNoteRecord, StepRecord, TaskOutcome
from skillopt_ci.report.comment import step_body, step_headline, step_row
from skillopt_ci.report.text import Links
from skillopt_ci.report.view import StepPlace
from skillopt_ci.rollout.types import Status

LINKS, PLACE = Links(REPOSITORY), StepPlace(SHA, SHA[::-1], 12.5)
EVENT = entry(3, action="accept_new_best", score_before=0.2, score_after=0.3, reason="0.3 > 0.2")


def decided(**changes: object) -> StepRecord:
    step = record(EVENT)
    assert step.decision is not None
    return step.model_copy(update={"decision": step.decision.model_copy(update=changes)})


@pytest.mark.parametrize(
    "said",
    [
        "| gate | 0.3 &gt; 0.2 |",
        "| selection tasks | 0.200 → **0.300 &#91;0.18, 0.45&#93; n=40** (hard) |",
        "| fixed (2) | <code>task-1</code>, <code>task-2</code> |",
        "| broken (1) | <code>task-3</code> |",
        "| failed (1) | <code>train-1</code> |",
        "| too old | 2 | <code>train-1</code> |",
        "> The old is gone.",
        "**Edit 1** · seen in 2 failed attempts",
        "```diff\n-old\n+new\n```",
        "cost <span>$</span>0.2500, 12.5 s",
        f"merge [{SHA[:7]}]({REPOSITORY}/commit/{SHA})",
    ],
)
def test_a_step_tells_all_its_evidence(said: str) -> None:
    assert said in step_body(record(EVENT), PLACE, LINKS)


def test_a_measurement_that_was_reused_is_told() -> None:
    assert "as measured in step 2" in step_body(decided(reused_from=2), PLACE, LINKS)


def test_a_step_without_a_candidate_has_no_flips() -> None:
    text = step_body(decided(action="skip_no_patches", measurement=None), PLACE, LINKS)
    assert "fixed" not in text


def test_tasks_that_infrastructure_failed_are_no_evidence() -> None:
    step = record(EVENT)
    lost = TaskOutcome(id="train-9", status=Status.ERROR, hard=0, soft=0, reason="HTTP 503")
    rollout = step.proposal.rollout.model_copy(update={"tasks": (lost,)})
    proposal = step.proposal.model_copy(update={"rollout": rollout})
    text = step_body(step.model_copy(update={"proposal": proposal}), PLACE, LINKS)
    assert "| failed (0) | none |" in text
    assert "**Not measured** (no evidence for or against)" in text
    assert "<code>train-9</code>: HTTP 503" in text


@pytest.mark.parametrize(
    ("action", "after", "said"),
    [
        ("accept", 0.3, "Step 3 merged: 0.200 → 0.300 on 40 tasks"),
        ("reject", 0.1, "Step 3 reverted: 0.200 → 0.100 on 40 tasks"),
        ("skip_no_patches", None, "Step 3: nothing proposed"),
    ],
)
def test_its_headline_is_the_verdict(action: str, after: float | None, said: str) -> None:
    assert step_headline(decided(action=action, score_after=after)) == said


def test_reviewers_see_what_became_of_their_notes() -> None:
    note = ReviewerNoteRecord(
        id="issue-1", author="ada", text="Be @kind", url=f"{REPOSITORY}/pull/1#issue-1", taken=1
    )
    step = record(EVENT)
    proposal = step.proposal.model_copy(update={"reviewer_notes": (note,)})
    text = step_body(step.model_copy(update={"proposal": proposal}), PLACE, LINKS)
    assert f"- [ada]({REPOSITORY}/pull/1#issue-1): “Be &#64;&#8203;kind” – **merged**" in text


def test_a_row_has_the_scores_and_the_commit() -> None:
    row = step_row(EVENT, PLACE, Links(REPOSITORY))
    assert row.startswith("| 3 | 0.200 | 0.300 | ✅ merged, new best · [")


def test_without_a_web_address_commits_are_named() -> None:
    run = replace(plain_run(1))
    assert f"<code>{SHA[:7]}</code>" in step_body(run.steps[0], PLACE, Links())

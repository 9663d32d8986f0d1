import re
from collections.abc import Iterable
from dataclasses import replace
from html import unescape

from run_views import altered, gate, plain_run

from skillopt_ci.ledger.evidence import (
    EditRecord,
    Measurement,
    PatternRecord,
    ReviewerNoteRecord,
    TaskOutcome,
)
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.report.effects import Effect, Effects
from skillopt_ci.report.html_page import Evidence, Version, build_page
from skillopt_ci.report.view import Fact, event_view
from skillopt_ci.rollout.types import Status

GATE = gate(-0.125, 0.05, compared=16, rounds=2, end="futile", candidate_attempts=24, saved=24)


def step(**proposal: object) -> StepRecord:
    return altered(plain_run(1).steps[0], **proposal)


def judged(**decision: object) -> StepRecord:
    return altered(plain_run(1).steps[0], decision)


def card(record: StepRecord, effects: Effects | None = None) -> str:
    run = replace(plain_run(1), steps=(record,))
    page = build_page(Evidence(run, (Version("at the start", "x"),), effects=effects or {}))
    found = page[page.index('<details class="card') : page.index('<section id="trajectories"')]
    return unescape(re.sub(r"<[^>]+>", "", found))


def facts(found: Iterable[Fact]) -> dict[str, str]:
    return {fact.label: fact.text for fact in found}


def test_every_number_of_a_verdict_has_its_row():
    measured = Measurement(
        hard=0.5,
        soft=0.5,
        score=0.5,
        tasks={"a": (0.5, 0.5)},
        planned=40,
        errors=("b",),
        unmeasured={"down": 3},
        pessimistic_hard=0.4,
        pessimistic_soft=0.4,
    )
    record = judged(gate=GATE, measurement=measured, compared=16)
    assert "not measured 1: b" in card(record)
    rows = facts(event_view(record).gate)
    assert rows["arithmetic"].startswith("Difference: -0.125 ± 0.107 (95 %) on 16 of 40 tasks, ")
    assert "24 saved: a gain was unlikely to be shown" in rows["arithmetic"]
    assert rows["rounds"] == "2"
    assert "(estimate: 16 of 40 tasks measured)" in rows["selection tasks"]
    assert "3 × down" in rows["caution"]
    assert "+0.063" in card(judged(score_before=0.0, score_after=0.0625))


def test_a_verdict_on_reminders_alone_has_its_own_arithmetic():
    alone = judged(gate=GATE).decision
    told = facts(event_view(judged(notes=alone)).gate)["reminders alone"]
    assert told.startswith("merged")
    assert "Difference: -0.125" in told
    waiting = judged().model_copy(update={"decision": None})
    assert facts(event_view(waiting).gate) == {"verdict": "in flight"}


def test_an_edit_says_what_it_is_believed_to_add_by_now():
    said = "by all that was measured +0.100 ± 0.098 (95 %), 98% likely to help"
    assert said in card(step(), {(1, 0): Effect(0.1, 0.05)})
    assert "by all that was measured" not in card(step())
    assert "over 99% likely to help" in card(step(), {(1, 0): Effect(0.5, 0.001)})


def test_what_attribution_did_in_runs_of_before_is_told_in_words():
    lost = EditRecord(op="append", content="x", status="skipped_race")
    harmful = EditRecord(
        op="delete", target="y", status="applied_delete", source_type="attribution", support_count=0
    )
    told = card(step(edits=(lost, harmful)))
    assert "append · not applied (race)" in told
    assert "delete · applied · did harm, by all that was measured" in told


def test_tasks_of_earlier_steps_and_refused_prompts_are_named():
    pattern = PatternRecord(description="`x`", count=1, task_ids=("train-9",))
    rollout = step().proposal.rollout
    lost = TaskOutcome(id="train-8", status=Status.REFUSED, hard=0, soft=0)
    rollout = rollout.model_copy(update={"tasks": (*rollout.tasks, lost)})
    told = card(step(patterns=(pattern,), rollout=rollout))
    assert "failed in earlier steps, and read again (1): train-9" in told
    assert "prompt refused (1): train-8" in told


def test_what_reviewers_asked_for_is_told_with_what_became_of_it():
    note = ReviewerNoteRecord(
        id="c1", author="ada", text="Be brief.", path="SKILL.md", line=7, proposed=2, taken=1
    )
    wish = "ada on SKILL.md:7: “Be brief.” – merged, 2 edits proposed for it, 1 taken"
    assert wish in card(step(reviewer_notes=(note,)))


def test_cost_is_told_by_role_and_stage():
    accounts = {Account("target", "rollout"): Usage(calls=3, prompt_tokens=10, cost_usd=0.5)}
    record = plain_run(1).steps[0].model_copy(update={"accounts": accounts})
    used = "3 calls, 10 tokens, cost $0.5000"
    assert f"target{used}rollout{used}" in card(record)

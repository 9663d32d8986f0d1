from collections.abc import Iterable

from run_views import SHA, plain_run

from skillopt_ci.ledger.records import (
    AccountRecord,
    ArmRecord,
    BoundaryRecord,
    EditRecord,
    EffectRecord,
    GateRecord,
    HeatRecord,
    Measurement,
    PairRecord,
    PairSide,
    ProposalRecord,
    RaceRecord,
    ReviewerNoteRecord,
    StepRecord,
    UsageRecord,
)
from skillopt_ci.report.html_skill import EditEffect
from skillopt_ci.report.html_step import Card, draw_gain, epoch_card, race_table, step_card
from skillopt_ci.report.view import Fact, StepPlace

GATE = GateRecord(
    policy="sequential",
    planned=40,
    compared=16,
    difference=-0.125,
    standard_error=0.05,
    p_value=0.31,
    alpha=0.05,
    margin=0.02,
    confidence=0.95,
    rounds=2,
    end="futile",
    candidate_attempts=24,
    current_attempts=8,
    baseline_attempts=4,
    saved=24,
    losses={"refund": 0.25},
)


RACE = RaceRecord(
    heats=(
        HeatRecord(
            arms=(
                ArmRecord(edits=(0,), scores={"a": 0.0, "b": 1.0}),
                ArmRecord(edits=(0, 1), scores={"a": 1.0, "b": 1.0}),
            ),
            errors=1,
        ),
    ),
    effects=(
        EffectRecord(mean=0.1, sd=0.04, helpful=0.99, kept=True),
        EffectRecord(mean=-0.1, sd=0.04, helpful=0.01, kept=False),
    ),
)


def step(**proposal: object) -> StepRecord:
    record = plain_run(1).steps[0]
    return record.model_copy(update={"proposal": record.proposal.model_copy(update=proposal)})


def judged(**decision: object) -> StepRecord:
    record = plain_run(1).steps[0]
    assert record.decision is not None
    return record.model_copy(update={"decision": record.decision.model_copy(update=decision)})


def card(record: StepRecord, effects: dict[tuple[int, int], tuple[EditEffect, ...]]) -> Card:
    return step_card(record, StepPlace(SHA), effects, None)


def facts(found: Iterable[Fact]) -> dict[str, str]:
    return {fact.label: fact.text for fact in found}


def test_every_number_of_a_verdict_has_its_row() -> None:
    measured = Measurement(
        hard=0.5,
        soft=0.5,
        score=0.5,
        tasks={"a": (0.5, 0.5)},
        planned=40,
        unmeasured={"down": 3},
        pessimistic_hard=0.4,
        pessimistic_soft=0.4,
    )
    rows = facts(card(judged(gate=GATE, measurement=measured, compared=16), {}).gate)
    assert rows["arithmetic"].startswith(
        "Policy sequential at 95% confidence: -0.125 ± 0.050 (standard error) over 16 of 40 tasks. "
        "Chance alone does so with p = 0.310 beyond 0.02; 0.05 is sure."
    )
    assert "24 saved: a gain was unlikely to be shown" in rows["arithmetic"]
    assert rows["rounds"] == "2"
    assert "(estimate: 16 of 40 tasks measured)" in rows["selection tasks"]
    assert "3 × down" in rows["beware"]


def test_a_verdict_on_reminders_alone_has_its_own_arithmetic() -> None:
    alone = judged(gate=GATE).decision
    told = facts(card(judged(notes=alone), {}).gate)["reminders alone"]
    assert told.startswith("merged")
    assert "Policy sequential at 95% confidence" in told


def test_a_candidate_in_flight_is_not_yet_judged() -> None:
    waiting = judged().model_copy(update={"decision": None})
    assert facts(card(waiting, {}).gate) == {"verdict": "in flight"}
    assert draw_gain(None) is None


def test_the_gain_is_drawn_to_scale_around_zero() -> None:
    drawn = draw_gain(judged(gate=GATE).decision)
    assert drawn is not None
    assert 0 < drawn.low < drawn.middle < drawn.high < drawn.zero < drawn.width
    assert abs((drawn.low + drawn.high) / 2 - drawn.middle) < 0.1


def test_a_race_shows_what_each_edit_is_worth_and_the_best_subset_first() -> None:
    table = race_table(step(race=RACE).proposal)
    assert table is not None
    assert table.effects == (
        ("+0.100 ± 0.040, helps with 99 %", True),
        ("-0.100 ± 0.040, helps with 1 %", False),
    )
    ((arms, errors),) = table.heats
    assert errors == 1
    assert [(arm.has, arm.score, arm.tasks) for arm in arms] == [
        ((True, True), "1.000", "2 tasks"),
        ((True, False), "0.500", "2 tasks"),
    ]
    assert "1 of 2 edits kept" in table.told
    assert race_table(step().proposal) is None


def test_an_edit_says_what_it_is_believed_to_add_by_now() -> None:
    known = (EditEffect(1, 0.2, 0.1, 0.9), EditEffect(9, 0.1, 0.05, 0.97))
    (edit,) = card(step(), {(1, 0): known}).edits
    assert edit.effect == "+0.100 ± 0.050, helps with 97 %"
    assert card(step(), {}).edits[0].effect == ""


def test_what_the_race_and_attribution_did_is_told_in_words() -> None:
    lost = EditRecord(op="append", content="x", status="skipped_race")
    harmful = EditRecord(
        op="delete", target="y", status="applied_delete", source_type="attribution", support_count=0
    )
    left_out, pruned = card(step(edits=(lost, harmful)), {}).edits
    assert left_out.fate == "left out by the race"
    assert pruned.why == "did harm, by all that was measured"


def test_what_reviewers_asked_for_is_told_with_what_became_of_it() -> None:
    note = ReviewerNoteRecord(
        id="c1", author="ada", text="Be brief.", path="SKILL.md", line=7, proposed=2, taken=1
    )
    proposal: ProposalRecord = step(reviewer_notes=(note,)).proposal
    (wish,) = card(step(reviewer_notes=proposal.reviewer_notes), {}).wishes
    assert wish == ("ada on SKILL.md:7: “Be brief.” – merged, 2 edits proposed for it, 1 taken")


def test_an_epochs_end_counts_how_tasks_fared() -> None:
    side = PairSide(hard=0, soft=0)
    pairs = tuple(
        PairRecord(id=name, category=kind, previous=side, current=side)
        for name, kind in (("a", "persistent_fail"), ("b", "persistent_fail"), ("c", "improved"))
    )
    record = BoundaryRecord(
        epoch=1, step=1, simulated=False, pairs=pairs, skill_before="a", skill_after="a",
        config_sha256="c", previous_hard=0.0, current_hard=0.5,
    )  # fmt: skip
    found = facts(epoch_card(record, StepPlace(SHA), None).facts)
    assert found["compared"].endswith("2 persistent fail, 1 improved")


def test_cost_is_told_by_role_and_stage() -> None:
    used = UsageRecord(calls=3, prompt_tokens=10, cost_usd=0.5)
    record = (
        plain_run(1)
        .steps[0]
        .model_copy(
            update={"accounts": (AccountRecord(role="target", stage="rollout", usage=used),)}
        )
    )
    rows = [(name.strip(), words) for name, words in card(record, {}).usage]
    assert ("target", "3 calls, 10 tokens, cost $0.5000") in rows
    assert ("rollout", "3 calls, 10 tokens, cost $0.5000") in rows

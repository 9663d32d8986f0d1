"""The gate's arithmetic reads as sentences, and an estimate is called one."""

import pytest

from skillopt_ci.ledger.records import (
    ArmRecord,
    Decision,
    EffectRecord,
    GateRecord,
    HeatRecord,
    HistoryEntry,
    Measurement,
    RaceRecord,
)
from skillopt_ci.report.commits import arrow
from skillopt_ci.report.terminal import log_row
from skillopt_ci.report.words import _race, after_text, arithmetic, tasks_text
from skillopt_ci.text import score

WHOLE = Measurement(hard=0.5, soft=0.5, score=0.5, tasks={"a": (1.0, 1.0), "b": (0.0, 0.0)})
PARTIAL = WHOLE.model_copy(update={"planned": 8})
GATE = GateRecord(
    policy="paired",
    planned=40,
    compared=38,
    difference=0.1,
    standard_error=0.07,
    p_value=0.0831,
    alpha=0.2,
    confidence=0.8,
    candidate_attempts=40,
)


def decision(measurement: Measurement | None = WHOLE, gate: GateRecord | None = None) -> Decision:
    return Decision(
        action="reject",
        reason="",
        metric="hard",
        score_before=0.5,
        score_after=None if measurement is None else 0.4375,
        measurement=measurement,
        compared=2,
        gate=gate,
    )


def test_a_partial_score_is_called_an_estimate() -> None:
    assert after_text(decision(PARTIAL)) == "0.438 (estimate: 2 of 8 tasks measured)"
    assert tasks_text(decision(PARTIAL)) == "2 of 8 tasks"


def test_a_whole_score_has_its_interval() -> None:
    assert after_text(decision()) == "0.500 [0.09, 0.91] n=2"
    assert tasks_text(decision()) == "2 tasks"
    assert after_text(decision(None)) == "not measured"


def test_records_of_before_say_nothing() -> None:
    assert arithmetic(decision()) == ""


def test_a_test_is_told_with_its_threshold() -> None:
    assert arithmetic(decision(gate=GATE)) == (
        "Policy paired at 80% confidence: +0.100 ± 0.070 (standard error) over 38 of 40 tasks. "
        "Chance alone does so with p = 0.083; 0.2 is sure. It took 40 attempts."
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"saved": 24, "end": "certain", "candidate_attempts": 16},
            "It took 16 attempts, 24 saved",
        ),
        ({"current_attempts": 7}, "40 attempts and 7 under the current skill."),
        ({"candidate_attempts": 0}, "No attempt was needed."),
        ({"baseline_attempts": 40}, "40 further attempts measured the accepted skill"),
        ({"losses": {"claims": 0.25}}, "Types of task that lost too much: claims -0.250."),
        ({"margin": 0.05}, "p = 0.083 beyond 0.05;"),
    ],
)
def test_what_is_out_of_the_ordinary_is_told(changes: dict[str, object], told: str) -> None:
    assert told in arithmetic(decision(gate=GATE.model_copy(update=changes)))


def test_a_type_of_task_cannot_add_lines() -> None:
    gate = GATE.model_copy(update={"losses": {"x\n::error::y": 0.25}})
    assert "\n" not in arithmetic(decision(gate=gate))


def test_a_race_is_summed_up() -> None:
    heat = HeatRecord(arms=(ArmRecord(edits=(0,), scores={"a": 1.0, "b": 0.0}),), errors=1)
    effect = EffectRecord(mean=0.1, sd=0.05, helpful=0.97, kept=True)
    worse = effect.model_copy(update={"kept": False})
    race = RaceRecord(heats=(heat,), effects=(effect, worse))
    assert _race(race) == "1 of 2 edits kept, raced as 1 subset in 1 heat (3 attempts)."
    without = race.model_copy(update={"heats": ()})
    assert _race(without) == "1 of 2 edits kept by what earlier steps had measured."


def test_an_estimate_is_marked_in_every_subject_and_row() -> None:
    assert score(0.4375, estimated=True) == "~0.438"
    assert score(None, estimated=True) == "–"
    assert arrow(decision(PARTIAL)) == "0.500 → ~0.438"
    assert arrow(decision()) == "0.500 → 0.438"
    entry = HistoryEntry(
        kind="step",
        step=1,
        epoch=1,
        action="reject",
        score_before=0.5,
        score_after=0.4375,
        planned=8,
    )
    assert log_row(entry)[3] == "~0.438"

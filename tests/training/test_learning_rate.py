import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.ledger.records import LearningRateRecord
from skillopt_ci.model.types import ModelUnavailable
from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.metrics import Aggregate
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.ask import Desk
from skillopt_ci.training.plan import coerced, decide_learning_rate
from tests.support.update_modes import PATCH

Scripted = Callable[..., Any]
Decide = Callable[..., LearningRateRecord]
POOL = tuple(Edit("append", content=text, support_count=3) for text in "abcd")

MEASURED = Aggregate(hard=1 / 3, soft=0.5, n=12, errors=0)


@pytest.fixture
def decided(prompts: Prompts, observer: Observer) -> Decide:
    def run(client: Any, means: Aggregate = MEASURED) -> LearningRateRecord:
        desk = Desk(client, prompts, observer, "tried before", "be brief")
        return asyncio.run(decide_learning_rate("# Skill", POOL, means, mode=PATCH, desk=desk))

    return run


def choosing(number: object, **more: object) -> Callable[..., str]:
    return lambda request: json.dumps({"learning_rate": number, **more})


def test_the_choice_is_recorded_with_its_reasons(scripted: Scripted, decided: Decide) -> None:
    said = {"reasoning": "few causes", "confidence": "high", "risk_notes": ["none known"]}
    assert decided(scripted(choosing(2, **said))) == LearningRateRecord(
        learning_rate=2,
        raw=2,
        available=4,
        reasoning="few causes",
        confidence="high",
        risk_notes=("none known",),
    )


def test_more_than_there_are_is_clamped(scripted: Scripted, decided: Decide) -> None:
    record = decided(scripted(choosing(9)))
    assert (record.learning_rate, record.raw, record.clamped) == (4, 9, True)


def test_zero_is_a_choice_and_no_fallback(scripted: Scripted, decided: Decide) -> None:
    record = decided(scripted(choosing(0)))
    assert (record.learning_rate, record.raw, record.fallback) == (0, 0, False)


@pytest.mark.parametrize("number", [True, None, [2], "many"])
def test_without_a_usable_answer_nothing_is_applied(
    number: object, scripted: Scripted, decided: Decide
) -> None:
    record = decided(scripted(choosing(number)))
    assert (record.learning_rate, record.raw, record.fallback) == (0, None, True)
    assert "`learning_rate`: expected a whole number" in record.reasoning


def test_an_outage_is_no_choice(scripted: Scripted, decided: Decide) -> None:
    with pytest.raises(ModelUnavailable):
        decided(scripted(lambda request: ModelUnavailable("down")))


def test_the_optimizer_is_shown_evidence_items_and_memory(
    scripted: Scripted, decided: Decide, prompts: Prompts
) -> None:
    client = scripted(choosing(2))
    decided(client)
    assert client.requests[0].stage == "lr_autonomous"
    assert client.requests[0].messages[0].content == prompts.text("lr_autonomous")
    headings = [line[3:] for line in client.prompts[0].splitlines() if line.startswith("## ")]
    assert headings == [
        "Optimizer Meta Skill",
        "Current Skill",
        "Evidence",
        "Proposed items (4 total)",
        "Previous Steps in This Epoch",
    ]
    for fact in ("rollout_n: 12", "rollout_hard: 0.333333", "rollout_soft: 0.500000"):
        assert f"- {fact}\n" in client.prompts[0]
    assert "- proposed_update_items: 4\n- update_item_type: edit\n" in client.prompts[0]
    assert '[3] op="append" target="" content="d" support=3' in client.prompts[0]


def test_the_optimizer_is_told_the_pessimistic_number_and_the_other(
    scripted: Scripted, decided: Decide, prompts: Prompts
) -> None:
    client = scripted(choosing(2))
    decided(client, means=Aggregate(0.5, 0.75, 6, 2))
    assert "- rollout_n: 8\n- rollout_hard: 0.375000\n- rollout_soft: 0.562500" in client.prompts[0]
    said = "- rollout_errors: 2 of 8 attempts could not be measured; they count as failed here."
    assert f"{said} Without them: hard 0.500000, soft 0.750000\n" in client.prompts[0]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (3, 3),
        (-2, 0),
        (4.0, 4),
        (2.5, 2),
        ("7", 7),
        ("about 3 of 5", 3),
        ("-4", 0),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        ("none", None),
        ([1], None),
    ],
)
def test_a_number_is_read_however_it_is_written(written: object, read: int | None) -> None:
    assert coerced(written) == read


@given(st.integers() | st.floats() | st.text() | st.booleans() | st.none())
def test_no_value_makes_a_negative_learning_rate(value: object) -> None:
    number = coerced(value)
    assert number is None or number >= 0

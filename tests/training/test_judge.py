"""The verdict when not every task could be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import TooManyErrors

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer

TOLERANT = "evaluation.max_error_rate=0.9"


def refuse(server: ModelServer, *items: int) -> None:
    endings = tuple(f"Item {item} of kind {'abcd'[item % 4]}" for item in items)
    server.trouble = lambda prompt: (500, "no") if prompt.endswith(endings) else None


def test_verdict_is_over_the_tasks_that_both_sides_measured(
    checkout: Checkout, model_server: ModelServer
) -> None:
    refuse(model_server, 101)
    outcome = checkout.done(TOLERANT)
    assert outcome.decision.compared == 7
    assert outcome.decision.score_after == pytest.approx(2 / 7)
    assert outcome.state.current.measurement.errors == ("b101",)


def test_error_under_the_candidate_is_no_loss(
    checkout: Checkout, model_server: ModelServer
) -> None:
    checkout.step()
    model_server.plan = ("Kind a: a number begins with a.", "Kind b: a number begins with b.")
    refuse(model_server, 100, 104)
    outcome = checkout.done(TOLERANT)
    assert (outcome.decision.score_before, outcome.decision.compared) == (0.0, 6)
    assert outcome.decision.score_after == pytest.approx(2 / 6)
    assert outcome.decision.broken == ()


def test_without_a_task_in_common_there_is_no_verdict(
    checkout: Checkout, model_server: ModelServer
) -> None:
    refuse(model_server, 100, 101, 102, 103)
    checkout.step(TOLERANT)
    refuse(model_server, 104, 105, 106, 107)
    with pytest.raises(TooManyErrors, match="under both skills"):
        checkout.step(TOLERANT)
    refuse(model_server)
    checkout.done(TOLERANT)

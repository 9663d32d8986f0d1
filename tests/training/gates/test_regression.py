"""No type of task pays for the gain of the others."""

import pytest

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.training.gate import losses
from skillopt_ci.training.measure import Tally, worth_in
from skillopt_ci.training.sequential_test import Measured, Setup

TYPES = {"a": "claims", "b": "claims", "c": "notes", "d": "", "e": "notes"}
BEFORE = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 1.0, "e": 1.0}
AFTER = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 1.0}


@pytest.mark.parametrize(
    ("allowed", "lost"),
    [(None, {}), (0.0, {"claims": 0.5}), (0.49, {"claims": 0.5}), (0.5, {}), (1.0, {})],
)
def test_types_that_lost_more_than_allowed_are_named(
    allowed: float | None, lost: dict[str, float]
) -> None:
    measured = Measured(
        *({task: Tally(s, s) for task, s in side.items()} for side in (AFTER, BEFORE))
    )
    terms = Setup(
        order=tuple(BEFORE),
        eligible=frozenset(BEFORE),
        rates=BEFORE,
        worth=worth_in(Evaluation()),
        settings=GateConfig(),
    )
    assert losses(measured, terms, TYPES, allowed) == lost

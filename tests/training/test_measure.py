"""What rollouts amount to as a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.rollout.outcome import Status
from skillopt_ci.settings.config import Evaluation
from skillopt_ci.training.measure import measurement

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from skillopt_ci.rollout.outcome import Rollout


def test_errors_are_named_and_not_averaged(make_rollout: Callable[..., Rollout]) -> None:
    rollouts = [
        make_rollout("right", 1.0),
        make_rollout("wrong", 0.0),
        make_rollout("broken", status=Status.ERROR),
        make_rollout("ungraded", status=Status.GRADER_ERROR),
    ]
    found = measurement(rollouts, Evaluation())
    assert (found.score, found.n, found.errors) == (0.5, 2, ("broken", "ungraded"))
    assert found.tasks == {"right": (1.0, 1.0), "wrong": (0.0, 0.0)}


def test_refused_prompt_counts_as_not_solved(make_rollout: Callable[..., Rollout]) -> None:
    rollouts = [make_rollout("right", 1.0), make_rollout("refused", status=Status.REFUSED)]
    assert measurement(rollouts, Evaluation()).score == 0.5


@pytest.mark.parametrize(("metric", "score"), [("hard", 0.0), ("soft", 0.8), ("mixed", 0.2)])
def test_score_is_in_the_gates_metric(
    make_rollout: Callable[..., Rollout], metric: Literal["hard", "soft", "mixed"], score: float
) -> None:
    evaluation = Evaluation(gate_metric=metric, gate_mixed_weight=0.25)
    found = measurement([make_rollout("half", 0.0, soft=0.8)], evaluation)
    assert found.score == pytest.approx(score)

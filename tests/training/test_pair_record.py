"""What is recorded of a comparison."""

from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.training.slow_update import Pair, Side, means, pair_records

Make = Callable[..., Any]


@pytest.fixture
def make_pair(make_task: Make, make_rollout: Make) -> Make:
    def make(name: str, before: float, after: float) -> Pair:
        return Pair(
            make_task(name), Side((make_rollout(name, before),)), Side((make_rollout(name, after),))
        )

    return make


def test_record_has_scores_and_category(make_pair: Make) -> None:
    (record,) = pair_records([make_pair("a", 0.0, 1.0)])
    assert (record.id, record.category) == ("a", "improved")
    assert (record.previous.hard, record.current.hard) == (0.0, 1.0)


def test_record_has_no_text_of_task_or_answer(make_pair: Make) -> None:
    (record,) = pair_records([make_pair("a", 0.0, 0.0)])
    assert set(record.model_dump()) == {"id", "category", "previous", "current"}
    assert set(record.model_dump()["current"]) == {"hard", "soft"}


def test_means_are_over_the_same_tasks(make_pair: Make) -> None:
    assert means([make_pair("a", 0.0, 1.0), make_pair("b", 0.0, 0.0)]) == (0.0, 0.5)


def test_nothing_compared_has_no_mean() -> None:
    assert means([]) == (None, None)

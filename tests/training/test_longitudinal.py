"""The comparison of two epochs' skills, on real repositories."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.training.slow_update import compare_epochs, earlier_skill
from skillopt_ci.training.trainer import prepare

if TYPE_CHECKING:
    from skillopt_ci.progress import Event
    from skillopt_ci.training.slow_update import Pair
    from tests.conftest import Checkout

OLD = "# Items\n"
NEW = "# Items\n\n- Kind a: a number begins with a.\n"


def compare(checkout: Checkout, events: list[Event], *overrides: str) -> tuple[Pair, ...]:
    session = checkout.session(*overrides, observer=events.append)

    async def work() -> tuple[Pair, ...]:
        async with session.bench("test") as bench:
            return await compare_epochs(session, OLD, NEW, 2, bench)

    return asyncio.run(work())


@pytest.mark.parametrize(("policy", "found"), [("mixed", 8), ("changed", 2), ("unchanged", 6)])
def test_policy_decides_what_is_kept(checkout: Checkout, policy: str, found: int) -> None:
    pairs = compare(checkout, [], f"optimizer.longitudinal_pair_policy={policy}")
    assert len(pairs) == found


def test_sample_is_as_large_as_configured(checkout: Checkout) -> None:
    assert len(compare(checkout, [], "optimizer.slow_update_samples=3")) == 3


def test_progress_counts_both_sides(checkout: Checkout) -> None:
    events: list[Event] = []
    compare(checkout, events)
    assert events[0] == StageStarted("compare", 16)
    assert sum(isinstance(event, StageAdvanced) for event in events) == 16
    assert events[-1] == StageFinished("compare", "6 persistent fail, 2 improved")


def test_every_attempt_is_made_under_both_skills(checkout: Checkout) -> None:
    events: list[Event] = []
    pairs = compare(checkout, events, "rollout.attempts=3")
    assert events[0] == StageStarted("compare", 48)
    assert {len(side.attempts) for pair in pairs for side in (pair.before, pair.after)} == {3}


def test_before_any_end_the_initial_skill_is_the_earlier_one(checkout: Checkout) -> None:
    checkout.step()
    session = checkout.session()
    standing, _ = asyncio.run(prepare(session))
    assert standing.skill != OLD
    assert earlier_skill(session, standing, 2) == OLD

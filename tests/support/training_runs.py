"""Training as the commands do it, with every outcome told as it comes."""

from collections.abc import Callable
from unittest.mock import patch

from skillopt_ci.estimate.calls import Range
from skillopt_ci.estimate.estimate import estimate
from skillopt_ci.training import prefetcher
from skillopt_ci.training.run_context import Run, equipped
from skillopt_ci.training.state import candidate_at, find_checkout
from skillopt_ci.training.trainer import (
    Outcome,
    advance,
    patiently,
    refuse_unusable_optimizer,
    train,
)


@patch.object(prefetcher, "tests_due", lambda *_: ())
async def train_all(session: Run, told: Callable[[Outcome], object]) -> int:
    """As ``run`` does up to its tests; return how many outcomes there were."""
    done = 0
    async with prefetcher.prefetching(session) as ready:
        async for outcome in train(ready):
            done += 1
            told(outcome)
    return done


async def train_once(session: Run, told: Callable[[Outcome], object]) -> int:
    """As ``step`` does; return how many outcomes there were."""
    done = 0
    async with equipped(session) as (ready, _):
        while (outcome := await patiently(ready, advance, patience=0)) is not None:
            done += 1
            told(outcome)
            refuse_unusable_optimizer(ready, outcome)
            if outcome.is_step:
                break
    return done


def estimated(session: Run, part: str = "rest") -> dict[str, Range]:
    """The calls that the rest of the run, or its next step, takes, as ``estimate`` tells them."""
    position = session.ledger.sync()
    checkout = find_checkout(session.ledger, session.skill_path, position)
    found = estimate(session, checkout, candidate_at(session, checkout, position.candidate))
    return {one.account.stage: one.calls for one in getattr(found, part).stages}

"""Training as the commands do it, with every outcome told as it comes."""

from collections.abc import Callable

from skillopt_ci.training.prefetcher import prefetching
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.trainer import Outcome, train


async def train_all(session: Run, told: Callable[[Outcome], object]) -> int:
    """As ``run`` does; return how many outcomes there were."""
    done = 0
    async with prefetching(session) as ready:
        async for outcome in train(ready):
            done += 1
            told(outcome)
    return done


async def train_once(session: Run, told: Callable[[Outcome], object]) -> int:
    """As ``step`` does; return how many outcomes there were."""
    done = 0
    async for outcome in train(session, steps=1, patience=0):
        done += 1
        told(outcome)
    return done

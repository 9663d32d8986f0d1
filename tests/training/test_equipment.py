"""What a run's pieces of work share, seen from a real server."""

from __future__ import annotations

import asyncio
import threading

import pytest

from skillopt_ci.errors import InfrastructureError
from skillopt_ci.training.run_context import equipped

ONE_AT_A_TIME = ("model.target.max_concurrency=1", "gradient.analyst_workers=1")


def test_all_steps_of_a_run_share_one_pool_of_connections(checkout, model_server):
    assert len(checkout.run(*ONE_AT_A_TIME)) == 4
    # one for attempts, and one for an analyst meanwhile
    assert len(model_server.peers) <= 2


def test_pieces_of_work_share_one_store_of_attempts_which_closes_with_the_session(checkout):
    session = checkout.session()

    async def work() -> None:
        async with equipped(session) as ready:
            assert ready.equipment is not None
            stores = set()
            for scope in ("one", "other"):
                async with ready.models(scope):
                    stores.add(ready.equipment.store)
            (store,) = stores
            assert store is not None
            assert store.get("unknown") is None
        with pytest.raises(InfrastructureError):
            store.get("unknown")

    asyncio.run(work())


def test_batches_share_the_places_of_analysts(checkout, model_server):
    """Two batches with two minibatches or more, and a single place."""
    under_way, most, lock = 0, 0, threading.Lock()
    answer = model_server.answer

    def counted(system: str, prompt: str) -> str:
        nonlocal under_way, most
        asks = "Stage: analyst" in system or "analyst_" in system
        with lock:
            under_way += asks
            most = max(most, under_way)
        try:
            return answer(system, prompt)
        finally:
            with lock:
                under_way -= asks

    model_server.answer = counted
    assert checkout.step("train.accumulation=2", "gradient.minibatch_size=1", ONE_AT_A_TIME[1])
    assert most == 1

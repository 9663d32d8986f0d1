import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.providers import ServerClient
from skillopt_ci.model.retry import RequestPacer
from skillopt_ci.model.types import Role
from tests.model.conftest import completion


@given(st.integers(1, 5))
def test_who_comes_together_passes_one_at_a_time(callers: int) -> None:
    seen = []

    async def pass_through(name: int, pacer: RequestPacer) -> None:
        await pacer.turn()
        for stage in range(3):
            seen.append((name, stage))
            await asyncio.sleep(0)

    async def run() -> None:
        pacer = RequestPacer(turns=3)
        await asyncio.gather(*(pass_through(name, pacer) for name in range(callers)))

    asyncio.run(run())
    assert seen == [(name, stage) for name in range(callers) for stage in range(3)]


def test_who_comes_alone_waits_for_nothing() -> None:
    async def run() -> None:
        with pytest.raises(StopIteration):
            RequestPacer().turn().send(None)

    asyncio.run(run())


def test_who_stays_long_behind_the_door_holds_up_nobody() -> None:
    async def run() -> None:
        pacer, never = RequestPacer(), asyncio.Event()

        async def linger() -> None:
            await pacer.turn()
            await never.wait()

        lingering = asyncio.create_task(linger())
        await asyncio.sleep(0)
        await asyncio.wait_for(pacer.turn(), 10)
        assert not lingering.done()
        lingering.cancel()

    asyncio.run(run())


def test_who_gives_up_waiting_is_passed_over() -> None:
    async def run() -> None:
        pacer = RequestPacer()
        await pacer.turn()
        gone, next_one = (asyncio.create_task(pacer.turn()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(next_one, 10)
        assert gone.cancelled()

    asyncio.run(run())


def test_requests_of_all_roles_leave_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, served: Any, ask: Any
) -> None:
    seen: list[str] = []

    async def send(*_: object) -> bytes:
        """Go through two stages on the way to the socket, with a turn between them."""
        task = asyncio.current_task()
        assert task is not None
        seen.append(f"{task.get_name()} made")
        await asyncio.sleep(0)
        seen.append(f"{task.get_name()} sent")
        return json.dumps(completion()).encode()

    monkeypatch.setattr(ServerClient, "_send", send)
    one: ModelRole = served()

    async def run() -> None:
        models = Models(target=one, optimizer=one)
        async with open_router(models, {"OPENAI_API_KEY": "k"}) as router:
            client = router.for_work("1", Meter())
            roles = {"a": Role.TARGET, "b": Role.OPTIMIZER, "c": Role.TARGET}
            await asyncio.gather(
                *(
                    asyncio.create_task(client.complete(ask(name, role=role)), name=name)
                    for name, role in roles.items()
                )
            )

    asyncio.run(run())
    assert seen == ["a made", "a sent", "b made", "b sent", "c made", "c sent"]

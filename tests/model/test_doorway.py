import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_models
from skillopt_ci.model.providers import ServerClient
from skillopt_ci.model.retry import Doorway, OrderlyClient
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Usage

REPLY = ChatReply("hello", "stop", "m", Usage())


class Stages:
    """Notes who is where on the way to the socket: in two stages, with a turn between them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.seen.append(f"{request.messages[0].content} made")
        await asyncio.sleep(0)
        self.seen.append(f"{request.messages[0].content} sent")
        return REPLY


@given(st.integers(1, 5))
def test_who_comes_together_passes_one_at_a_time(callers: int) -> None:
    seen = []

    async def pass_through(name: int, doorway: Doorway) -> None:
        await doorway.passed()
        for stage in range(3):
            seen.append((name, stage))
            await asyncio.sleep(0)

    async def run() -> None:
        doorway = Doorway(turns=3)
        await asyncio.gather(*(pass_through(name, doorway) for name in range(callers)))

    asyncio.run(run())
    assert seen == [(name, stage) for name in range(callers) for stage in range(3)]


def test_who_comes_alone_waits_for_nothing() -> None:
    async def run() -> None:
        with pytest.raises(StopIteration):
            Doorway().passed().send(None)

    asyncio.run(run())


def test_who_stays_long_behind_the_door_holds_up_nobody() -> None:
    async def run() -> None:
        doorway, never = Doorway(), asyncio.Event()

        async def linger() -> None:
            await doorway.passed()
            await never.wait()

        lingering = asyncio.create_task(linger())
        await asyncio.sleep(0)
        await asyncio.wait_for(doorway.passed(), 10)
        assert not lingering.done()
        lingering.cancel()

    asyncio.run(run())


def test_who_gives_up_waiting_is_passed_over() -> None:
    async def run() -> None:
        doorway = Doorway()
        await doorway.passed()
        gone, next_one = (asyncio.create_task(doorway.passed()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(next_one, 10)
        assert gone.cancelled()

    asyncio.run(run())


def test_clients_share_a_doorway(ask: Any) -> None:
    stages = Stages()

    async def run() -> None:
        doorway = Doorway()
        clients = [OrderlyClient(stages, doorway) for _ in range(2)]
        replies = await asyncio.gather(
            *(one.complete(ask(name)) for one, name in zip(clients, "ab", strict=True))
        )
        assert replies == [REPLY, REPLY]

    asyncio.run(run())
    assert stages.seen == ["a made", "a sent", "b made", "b sent"]


def test_requests_of_all_roles_leave_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, served: Any, ask: Any
) -> None:
    stages = Stages()
    monkeypatch.setattr(ServerClient, "complete", lambda _, request: stages.complete(request))
    one: ModelRole = served()

    async def run() -> None:
        opened = open_models(
            Models(target=one, optimizer=one), {"OPENAI_API_KEY": "k"},
            cache_path=None, scope="1", meter=Meter(), root=Path(),
        )  # fmt: skip
        async with opened as client:
            roles = {"a": Role.TARGET, "b": Role.OPTIMIZER, "c": Role.TARGET}
            await asyncio.gather(
                *(client.complete(ask(name, role=role)) for name, role in roles.items())
            )

    asyncio.run(run())
    assert stages.seen == ["a made", "a sent", "b made", "b sent", "c made", "c sent"]

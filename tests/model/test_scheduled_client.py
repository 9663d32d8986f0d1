import asyncio
from typing import Any

from skillopt_ci.aio import Slots, map_ordered
from skillopt_ci.model.middleware import ScheduledClient
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Usage


class Counting:
    """Answers after some turns of the loop and counts the requests under way by role."""

    def __init__(self) -> None:
        self.under_way = dict.fromkeys(Role, 0)
        self.most = dict.fromkeys(Role, 0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.under_way[request.role] += 1
        self.most[request.role] = max(self.most[request.role], self.under_way[request.role])
        for _ in range(3):
            await asyncio.sleep(0)
        self.under_way[request.role] -= 1
        return ChatReply("", "stop", "m", Usage())


def test_questions_of_all_stages_share_the_places_and_attempts_need_none(ask: Any) -> None:
    counting = Counting()
    client = ScheduledClient(counting, Slots(2))
    requests = [ask(role=role) for role in (Role.OPTIMIZER, Role.TARGET, Role.JUDGE) * 5]
    asyncio.run(map_ordered(client.complete, requests, limit=len(requests)))
    assert counting.most == {Role.OPTIMIZER: 2, Role.TARGET: 5, Role.JUDGE: 5}

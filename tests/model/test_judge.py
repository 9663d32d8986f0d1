import asyncio
from typing import Any

from skillopt_ci.messages import Message
from skillopt_ci.model.middleware import ChatJudge
from skillopt_ci.model.types import ChatRequest, Role


def test_a_question_goes_to_the_judge(scripted: Any, reply: Any) -> None:
    inner = scripted(reply("0.8"))
    assert asyncio.run(ChatJudge(inner)("How good?")) == "0.8"
    assert inner.asked == [ChatRequest(Role.JUDGE, "judge", (Message("user", "How good?"),))]

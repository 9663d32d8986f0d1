"""Tools over the simulated server's wire, as the official client sends them."""

import json

import openai
import pytest

from skillopt_ci.demo.models import (
    BadRequestError,
    SimulatedServer,
    content_key,
    generate_orders,
    read_call,
)
from skillopt_ci.messages import Message, ToolCall

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("shell", "write", "submit")
]


def test_a_whole_piece_of_work_goes_over_the_wire(server: SimulatedServer) -> None:
    talk: list[object] = [{"role": "user", "content": generate_orders(1, 1)[0].prompt}]
    used = []
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        while "submit" not in used:
            reply = client.chat.completions.create(
                model="simulated-target",
                messages=talk,  # type: ignore[arg-type]
                tools=TOOLS,  # type: ignore[arg-type]
            )
            choice = reply.choices[0]
            assert choice.finish_reason == "tool_calls"
            for call in choice.message.tool_calls or ():
                used.append(call.function.name)  # type: ignore[union-attr]
                answer = {"role": "tool", "tool_call_id": call.id, "content": "ok"}
                talk += [choice.message.model_dump(exclude_none=True), answer]
    assert used[:2] == ["shell", "write"]
    assert used[-1] == "submit"


def test_requests_that_differ_in_their_calls_alone_are_different() -> None:
    call = ToolCall("1", "shell", "{}")
    plain, calling = Message("assistant", "x"), Message("assistant", "x", tool_calls=(call,))
    other = Message("assistant", "x", tool_calls=(ToolCall("1", "shell", "[]"),))
    assert len({content_key([m]) for m in (plain, calling, other)}) == 3


@pytest.mark.parametrize(
    "part",
    [
        {"tools": "shell"},
        {"tools": [{"type": "function"}]},
        {"tools": [{"function": {"name": 3}}]},
        {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
        {"messages": [{"role": "assistant", "tool_calls": "x"}]},
    ],
)
def test_what_is_no_tool_is_refused(part: dict[str, object]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **part}
    with pytest.raises(BadRequestError):
        read_call(json.dumps(body).encode())

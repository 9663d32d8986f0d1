"""Anthropic's Messages API: what a request offers and holds, and an answer as its events."""

import json
from collections.abc import Iterator

from agent_model.moves import CACHED, COMPLETION, PROMPT, Body, Move, Tool

PATH = "/v1/messages"


def tools(body: Body) -> list[Tool]:
    """Return the tools that the agent offers."""
    return [Tool(one["name"], one.get("input_schema", {})) for one in body.get("tools", ())]


def results(body: Body) -> int:
    """Count the results of tools in the conversation."""
    contents = [turn["content"] for turn in body["messages"] if isinstance(turn["content"], list)]
    return sum(block["type"] == "tool_result" for content in contents for block in content)


def whole(body: Body, move: Move, number: int) -> Body:
    """Return an answer that is not streamed."""
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [_block(move, number)],
        "stop_reason": "tool_use" if move.tool else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": PROMPT - CACHED,
            "cache_read_input_tokens": CACHED,
            "cache_creation_input_tokens": 0,
            "output_tokens": COMPLETION,
        },
    }


def stream(body: Body, move: Move, number: int) -> Iterator[tuple[str, Body]]:
    """Yield the same answer as events."""
    message = whole(body, move, number)
    start = {**message, "content": [], "stop_reason": None}
    yield _event("message_start", message=start)
    if move.tool:
        block = {**_block(move, number), "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(dict(move.arguments))}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": move.text}
    yield _event("content_block_start", index=0, content_block=block)
    yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage={"output_tokens": COMPLETION})
    yield _event("message_stop")


def error(status: int, told: str) -> Body:
    """Return the body of a refusal."""
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": told}}


def _block(move: Move, number: int) -> Body:
    if not move.tool:
        return {"type": "text", "text": move.text}
    called = {"name": move.tool, "input": dict(move.arguments)}
    return {"type": "tool_use", "id": f"toolu_{number}", **called}


def _event(kind: str, **fields: object) -> tuple[str, Body]:
    return kind, {"type": kind, **fields}

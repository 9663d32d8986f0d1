"""OpenAI's Responses API: what a request offers and holds, and an answer as its events."""

import json
from collections.abc import Iterator

from agent_model.moves import CACHED, COMPLETION, PROMPT, Body, Move, Tool

PATH = "/responses"


def tools(body: Body) -> list[Tool]:
    """Return the functions that the agent offers."""
    functions = [one for one in body.get("tools", ()) if one["type"] == "function"]
    return [Tool(one["name"], one.get("parameters") or {}) for one in functions]


def results(body: Body) -> int:
    """Count the results of functions in the conversation."""
    items = body["input"] if isinstance(body["input"], list) else []
    return sum(item.get("type") == "function_call_output" for item in items)


def whole(body: Body, move: Move, number: int) -> Body:
    """Return an answer that is not streamed."""
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": [_item(move, number)],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": PROMPT,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": COMPLETION,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": PROMPT + COMPLETION,
        },
    }


def stream(body: Body, move: Move, number: int) -> Iterator[tuple[str, Body]]:
    """Yield the same answer as events."""
    response = whole(body, move, number)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    item = _item(move, number)
    told = [
        ("response.created", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": _empty(item)}),
        *_pieces(item),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    ]
    for place, (kind, fields) in enumerate(told):
        yield kind, {"type": kind, "sequence_number": place, **fields}


def error(status: int, told: str) -> Body:
    """Return the body of a refusal."""
    kind = "invalid_request_error" if status < 429 else "server_error"
    code = "invalid_api_key" if status == 401 else None
    return {"error": {"message": told, "type": kind, "param": None, "code": code}}


def _item(move: Move, number: int) -> Body:
    if not move.tool:
        content = [{"type": "output_text", "text": move.text, "annotations": []}]
        about = {"role": "assistant", "content": content}
        return {"type": "message", "id": f"msg_{number}", "status": "completed", **about}
    called = {"name": move.tool, "arguments": json.dumps(dict(move.arguments))}
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "status": "completed", **called}


def _empty(item: Body) -> Body:
    key = "content" if item["type"] == "message" else "arguments"
    return {**item, "status": "in_progress", key: type(item[key])()}


def _pieces(item: Body) -> list[tuple[str, Body]]:
    at = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "function_call":
        written = item["arguments"]
        return [
            ("response.function_call_arguments.delta", {**at, "delta": written}),
            ("response.function_call_arguments.done", {**at, "arguments": written}),
        ]
    (part,), at = item["content"], {**at, "content_index": 0}
    return [
        ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
        ("response.output_text.delta", {**at, "delta": part["text"]}),
        ("response.output_text.done", {**at, "text": part["text"]}),
        ("response.content_part.done", {**at, "part": part}),
    ]

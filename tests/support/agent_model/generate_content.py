"""Google's generateContent API: what a request offers and holds, and an answer as its events."""

import json
from collections.abc import Iterator

from agent_model.moves import CACHED, COMPLETION, PROMPT, Body, Move, Tool

PATH = "enerateContent"  # generateContent, streamGenerateContent


def tools(body: Body) -> list[Tool]:
    """Return the functions that the agent offers."""
    declared = [one for each in body.get("tools", ()) for one in each["functionDeclarations"]]
    return [Tool(one["name"], _schema(one)) for one in declared]


def results(body: Body) -> int:
    """Count the results of functions in the conversation."""
    parts = [part for turn in body["contents"] for part in turn["parts"]]
    return sum("functionResponse" in part for part in parts)


def whole(body: Body, move: Move, number: int) -> Body:
    """Return an answer; one event of a stream is the same."""
    asks_for_json = body.get("generationConfig", {}).get("responseMimeType") == "application/json"
    part: Body = {"text": "{}" if asks_for_json else move.text}
    if move.tool:
        part = {"functionCall": {"name": move.tool, "args": dict(move.arguments)}}
    content = {"role": "model", "parts": [part]}
    usage = {
        "promptTokenCount": PROMPT,
        "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": COMPLETION,
        "totalTokenCount": PROMPT + COMPLETION,
    }
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"responseId": f"r{number}", "candidates": [candidate], "usageMetadata": usage}


def stream(body: Body, move: Move, number: int) -> Iterator[tuple[str, Body]]:
    """Yield the same answer as events, which have no names here."""
    yield "", whole(body, move, number)


def error(status: int, told: str) -> Body:
    """Return the body of a refusal."""
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
    return {"error": {"code": status, "message": told, "status": names.get(status, "INTERNAL")}}


def _schema(declared: Body) -> Body:
    given = declared.get("parametersJsonSchema") or declared.get("parameters") or {}
    return json.loads(json.dumps(given))  # type: ignore[no-any-return]

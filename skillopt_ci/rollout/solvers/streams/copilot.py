"""GitHub Copilot CLI: `--output-format json`, in either of the two forms that it writes."""

from collections.abc import Mapping

from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.solvers.streams.account import (
    Account,
    Event,
    Scribe,
    events,
    number,
    part,
    parts,
    text,
)


def read_copilot(output: str) -> Account:
    """Read session events (`assistant.message`, …) and flat ones (`message`, `tool_use`, …)."""
    scribe = Scribe()
    for event in events(output):
        data = part(event, "data")
        match event.get("type"):
            case "assistant.message":
                _message(scribe, data)
            case "tool.execution_complete":
                _completed(scribe, data)
            case "model.call_failure":
                told = f"HTTP {number(data.get('statusCode'))} {text(data.get('errorMessage'))}"
                scribe.troubled(told.strip())
            case "session.error":
                scribe.error = text(data.get("message")) or "the session failed"
            case "message" if event.get("role") in ("assistant", None):
                scribe.say(_words(event.get("content")))
            case "tool_use":
                scribe.call(text(event.get("id")), text(event.get("name")), _input(event))
            case "tool_result":
                key = event.get("tool_use_id") or event.get("id")
                scribe.result(text(key), _words(event.get("content") or event.get("output")))
            case "usage":
                scribe.usage = (scribe.usage or Usage(cost_usd=None)) + _usage(event)
    return scribe.finished()


def _message(scribe: Scribe, data: Event) -> None:
    tokens = number(data.get("outputTokens"))
    scribe.turn(text(data.get("messageId")))
    scribe.say(text(data.get("content")))
    for asked in parts(data.get("toolRequests")):
        key, name = text(asked.get("toolCallId")), text(asked.get("name"))
        scribe.call(key, name, asked.get("arguments") or {})
    if tokens:
        # These events tell nothing of the prompts: the count is a lower bound.
        spent = Usage(calls=1, completion_tokens=tokens, cost_usd=None, estimated=True)
        scribe.usage = (scribe.usage or Usage()) + spent


def _completed(scribe: Scribe, data: Event) -> None:
    result = part(data, "result")
    ended = [part(data, "shellExecution"), *parts(result.get("contents"))]
    codes = [each.get("exitCode") for each in ended]
    code = next((code for code in codes if isinstance(code, int)), None)
    failure = part(data, "error").get("message")
    shown = text(result.get("content")) or text(failure)
    scribe.result(text(data.get("toolCallId")), shown, code)


def _words(content: object) -> str:
    blocks = parts(content)
    return "".join(text(block.get("text")) for block in blocks) if blocks else text(content)


def _input(event: Event) -> object:
    given = event.get("input")
    return dict(given) if isinstance(given, Mapping) else given or {}


def _usage(event: Event) -> Usage:
    told = part(event, "usage") or event
    return Usage(
        calls=1,
        prompt_tokens=number(told.get("input_tokens")),
        completion_tokens=number(told.get("output_tokens")),
        cached_tokens=number(told.get("cache_read_input_tokens")),
        cost_usd=None,
    )

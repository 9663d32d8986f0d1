"""Gemini CLI: `--output-format stream-json`."""

from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.solvers.streams.account import (
    Account,
    Event,
    Scribe,
    events,
    number,
    part,
    text,
)


def read_gemini(output: str) -> Account:
    """Read messages (whole or in pieces), tool calls, tool results, and the result at the end."""
    scribe = Scribe()
    for event in events(output):
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                scribe.say(text(event.get("content")))
            case "tool_use":
                scribe.call(
                    text(event.get("tool_id")),
                    text(event.get("tool_name")),
                    event.get("parameters") or {},
                )
            case "tool_result":
                failure = part(event, "error").get("message")
                shown = text(event.get("output")) or text(failure)
                scribe.result(text(event.get("tool_id")), shown)
            case "error":
                scribe.tell("error", text(event.get("message")))
            case "result":
                scribe.usage = _usage(part(event, "stats"))
                if event.get("status") == "error":
                    scribe.error = text(part(event, "error").get("message")) or "it failed"
    return scribe.finished()


def _usage(stats: Event) -> Usage | None:
    if not stats:
        return None
    return Usage(
        calls=1,
        prompt_tokens=number(stats.get("input_tokens")),
        completion_tokens=number(stats.get("output_tokens")),
        cached_tokens=number(stats.get("cached")),
        cost_usd=None,
    )

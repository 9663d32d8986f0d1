"""Cursor's agent: `--output-format stream-json`."""

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


def read_cursor(output: str) -> Account:
    """Read the assistant's messages, tool calls that began and ended, and the result."""
    scribe = Scribe()
    for event in events(output):
        match event.get("type"):
            case "assistant":
                for block in parts(part(event, "message").get("content")):
                    scribe.say(text(block.get("text")))
            case "tool_call":
                _tool_call(scribe, event)
            case "result":
                _result(scribe, event)
    return scribe.finished()


def _tool_call(scribe: Scribe, event: Event) -> None:
    key, called = text(event.get("call_id")), part(event, "tool_call")
    # The one key besides particulars says which tool it is: readToolCall, shellToolCall, …
    name = next((name for name, value in called.items() if isinstance(value, Mapping)), "tool")
    about = part(called, name)
    if event.get("subtype") == "started":
        named = text(about.get("name")) or name.removesuffix("ToolCall")
        scribe.call(key, named, about.get("args") or about.get("arguments") or {})
    elif event.get("subtype") == "completed":
        outcome = about.get("result")
        success = outcome.get("success") if isinstance(outcome, Mapping) else None
        shown = success.get("content") if isinstance(success, Mapping) else None
        code = success.get("exitCode") if isinstance(success, Mapping) else None
        scribe.result(key, text(shown or outcome), code if isinstance(code, int) else None)


def _result(scribe: Scribe, event: Event) -> None:
    said = text(event.get("result"))
    if event.get("is_error") is True:
        scribe.error = said or "it failed"
    elif said and not scribe.spoke:
        # It joins all that was said; the last message alone is the answer, where there is one.
        scribe.response = said
    usage = part(event, "usage")
    if usage:
        cached = number(usage.get("cacheReadTokens"))
        written = number(usage.get("cacheWriteTokens"))
        scribe.usage = Usage(
            calls=1,
            prompt_tokens=number(usage.get("inputTokens")) + cached + written,
            completion_tokens=number(usage.get("outputTokens")),
            cached_tokens=cached,
            cost_usd=None,
        )

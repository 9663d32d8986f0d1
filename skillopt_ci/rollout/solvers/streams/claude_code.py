"""Claude Code: `--output-format stream-json --verbose`."""

from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.solvers.streams.account import (
    Account,
    Event,
    Scribe,
    events,
    money,
    number,
    part,
    parts,
    text,
)
from skillopt_ci.rollout.steps import Limit

_NO_MODEL = "<synthetic>"
_LIMITS = {"error_max_turns": Limit.STEPS, "error_max_budget_usd": Limit.COST}


def read_claude_code(output: str) -> Account:
    """Read messages of assistant and user (tool results), and the result at the end."""
    scribe = Scribe()
    for event in events(output):
        if event.get("parent_tool_use_id"):
            continue  # a helper that the agent started: its work is the result of that tool
        match event.get("type"):
            case "system" if event.get("subtype") == "api_retry":
                told = f"{number(event.get('error_status')) or ''} {text(event.get('error'))}"
                scribe.troubled(f"API error {told.strip()}")
            case "assistant" if part(event, "message").get("model") == _NO_MODEL:
                pass  # the program's own words about an error, which the result repeats
            case "assistant":
                _assistant(scribe, part(event, "message"))
            case "user":
                for block in parts(part(event, "message").get("content")):
                    _tool_result(scribe, block)
            case "result":
                _result(scribe, event)
    return scribe.finished()


def _assistant(scribe: Scribe, message: Event) -> None:
    # A message of several blocks comes as several events with the same id and the same usage.
    scribe.turn(text(message.get("id")), _usage(part(message, "usage")))
    for block in parts(message.get("content")):
        match block.get("type"):
            case "text":
                scribe.say(text(block.get("text")))
            case "tool_use":
                scribe.call(text(block.get("id")), text(block.get("name")), block.get("input"))


def _tool_result(scribe: Scribe, block: Event) -> None:
    if block.get("type") == "tool_result":
        content = block.get("content")
        blocks = parts(content)
        shown = "\n".join(text(each.get("text")) for each in blocks) if blocks else text(content)
        scribe.result(text(block.get("tool_use_id")), shown)


def _result(scribe: Scribe, event: Event) -> None:
    subtype = text(event.get("subtype"))
    scribe.limit = _LIMITS.get(subtype)
    told = _usage(part(event, "usage"))
    scribe.usage = Usage(
        calls=number(event.get("num_turns")),
        prompt_tokens=told.prompt_tokens,
        completion_tokens=told.completion_tokens,
        cached_tokens=told.cached_tokens,
        cost_usd=money(event.get("total_cost_usd")),
    )
    failed = event.get("is_error") is True or subtype.startswith("error")
    said = text(event.get("result"))
    if failed and scribe.limit is None:
        reasons = event.get("errors")
        listed = "; ".join(map(text, reasons)) if isinstance(reasons, list) else ""
        status = number(event.get("api_error_status"))
        reason = said or listed or subtype
        scribe.error = f"{reason} (HTTP status {status})" if status else reason
    elif said:
        scribe.response = said


def _usage(usage: Event) -> Usage:
    cached = number(usage.get("cache_read_input_tokens"))
    fresh = number(usage.get("input_tokens")) + number(usage.get("cache_creation_input_tokens"))
    return Usage(
        calls=1,
        prompt_tokens=fresh + cached,
        completion_tokens=number(usage.get("output_tokens")),
        cached_tokens=cached,
        cost_usd=None,
    )

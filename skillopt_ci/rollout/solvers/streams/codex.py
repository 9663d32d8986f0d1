"""Codex: `codex exec --json`."""

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


def read_codex(output: str) -> Account:
    """Read completed items, the turns' usage, and errors."""
    scribe = Scribe()
    for event in events(output):
        match event.get("type"):
            case "item.completed":
                _item(scribe, part(event, "item"))
            case "turn.completed":
                scribe.usage = (scribe.usage or Usage()) + _usage(part(event, "usage"))
            case "turn.failed":
                scribe.error = text(part(event, "error").get("message")) or "the turn failed"
            case "error":
                # Written each time a connection is taken up again; a failed turn has its own event.
                scribe.troubled(text(event.get("message")))
    return scribe.finished()


def _item(scribe: Scribe, item: Event) -> None:
    key = text(item.get("id"))
    match item.get("type"):
        case "agent_message":
            scribe.turn(key)
            scribe.say(text(item.get("text")))
        case "command_execution":
            code = item.get("exit_code")
            scribe.call(key, "shell", {"command": text(item.get("command"))})
            output = text(item.get("aggregated_output"))
            scribe.result(key, output, code if isinstance(code, int) else None)
        case "file_change":
            scribe.call(key, "file_change", {"changes": parts(item.get("changes"))})
            scribe.result(key, text(item.get("status")))
        case "mcp_tool_call":
            name = f"{text(item.get('server'))}.{text(item.get('tool'))}"
            scribe.call(key, name, _plain(item.get("arguments")))
            failure = part(item, "error").get("message")
            scribe.result(key, text(failure) or text(part(item, "result").get("content")))
        case kind:
            scribe.tell(text(kind), text(item.get("text") or item.get("message") or ""))


def _plain(arguments: object) -> object:
    return dict(arguments) if isinstance(arguments, Mapping) else arguments or {}


def _usage(usage: Event) -> Usage:
    return Usage(
        calls=1,
        prompt_tokens=number(usage.get("input_tokens")),
        completion_tokens=number(usage.get("output_tokens")),
        cached_tokens=number(usage.get("cached_input_tokens")),
        reasoning_tokens=number(usage.get("reasoning_output_tokens")),
        cost_usd=None,
    )

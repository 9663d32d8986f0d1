"""Reads the event streams of agent CLIs (docs/agents.md); unknown events are skipped."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import JsonObject, Usage, as_text, total
from skillopt_ci.rollout.types import Limit, ModelSaid, Step, Told, ToolUsed

#: Claude Code's own limits.
_LIMITS = {"error_max_turns": Limit.STEPS, "error_max_budget_usd": Limit.COST}


@dataclass(slots=True)
class AgentTranscript:
    """The content of a stream; ``trouble`` is the last error from the agent's server.

    ``model`` is Anthropic's, if it is told.
    """

    steps: list[Step] = field(default_factory=list)
    response: str | None = None
    usage: Usage | None = None
    error: str = ""
    limit: Limit | None = None
    trouble: str = ""
    model: str = ""
    _text: list[str] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)
    _results: list[Step] = field(default_factory=list)
    _turn_usage: Usage = field(default_factory=Usage)
    _turn: str = ""
    _known: set[str] = field(default_factory=set)
    _open: dict[str, ToolCall] = field(default_factory=dict)

    @property
    def turns(self) -> int:
        """The number of model answers, as far as the stream separates them."""
        return sum(isinstance(step, ModelSaid) for step in self.steps)

    @property
    def messages(self) -> Iterator[Message]:
        for step in self.steps:
            if isinstance(step, ModelSaid):
                yield step.message
            elif isinstance(step, ToolUsed):
                yield Message("tool", step.output, tool_call_id=step.call.id)

    def turn(self, key: str, usage: Usage | None = None) -> None:
        if key and key == self._turn:
            return
        self._end_turn()
        self._turn = key
        self._turn_usage = Usage() if usage is None or key in self._known else usage
        self._known.add(key)

    def say(self, text: str) -> None:
        self._text.append(text)

    def call(self, call_id: str, name: str, arguments: object) -> None:
        if call_id and call_id in self._open:
            return
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)
        call = ToolCall(call_id or f"call_{len(self._open)}", name, written)
        self._calls.append(call)
        self._open[call.id] = call

    def result(self, call_id: str, output: str, exit_code: object = None) -> None:
        call = self._open.pop(call_id, None)
        code = exit_code if isinstance(exit_code, int) else None
        self._results.append(ToolUsed(call, output, code) if call else Told("tool_result", output))
        if not self._turn:  # else the model may still be adding calls to this answer
            self._end_turn()

    def tell(self, kind: str, text: str) -> None:
        self._end_turn()
        self.steps.append(Told(kind, text))

    def troubled(self, text: str) -> None:
        self.tell("error", text)
        self.trouble = text

    def spend(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def spoke(self) -> bool:
        return bool("".join(self._text).strip())

    def end(self) -> None:
        self._end_turn()
        self.steps += [ToolUsed(call, "[no result was told]") for call in self._open.values()]
        turns = [step for step in self.steps if isinstance(step, ModelSaid)]
        if self.usage is None and (used := total(turn.usage for turn in turns)).calls:
            # killed before its result: outputs are as long as they were when their messages began
            self.usage = replace(used, estimated=True)
        if self.response is None and turns and turns[-1].message.content.strip():
            self.response = turns[-1].message.content

    def _end_turn(self) -> None:
        if self._text or self._calls:
            message = Message("assistant", "".join(self._text), tool_calls=tuple(self._calls))
            self.steps.append(ModelSaid(message, self._turn_usage))
            self.trouble = ""
        self.steps += self._results
        self._text, self._calls, self._results, self._turn = [], [], [], ""


def _usage(counts: JsonObject) -> Usage:
    """The usage of one call, in any agent's words."""
    read = counts.number("cache_read_input_tokens", "cacheReadInputTokens", "cacheReadTokens")
    written = counts.number(
        "cache_creation_input_tokens", "cacheCreationInputTokens", "cacheWriteTokens"
    )
    return Usage(
        calls=1,
        # Codex and Gemini count what was cached among these
        prompt_tokens=counts.number("input_tokens", "inputTokens") + written + read,
        completion_tokens=counts.number("output_tokens", "outputTokens"),
        cached_tokens=read or counts.number("cached_input_tokens", "cached"),
        reasoning_tokens=counts.number("reasoning_output_tokens"),
        cost_usd=None,
    )


def _claude_code(told: AgentTranscript, event: JsonObject) -> None:
    """`--output-format stream-json --verbose` (also Qwen Code's): messages, tools, the result."""
    if event.get("parent_tool_use_id"):
        return  # a subagent: its work is the result of the tool that started it
    message = event.at("message")
    match event.get("type"):
        case "system" if event.get("subtype") == "api_retry":
            error = f"{event.number('error_status') or ''} {event.text('error')}"
            told.troubled(f"API error {error.strip()}")
        # Not the program's own message about an error, which the result repeats.
        case "assistant" if message.get("model") != "<synthetic>":
            # Blocks of one message come as separate events with the same id and usage.
            told.turn(message.text("id"), _usage(message.at("usage")))
            told.model = message.text("model") or told.model
            for block in message.each("content"):
                if block.get("type") == "text":
                    told.say(block.text("text"))
                elif block.get("type") == "tool_use":
                    told.call(block.text("id"), block.text("name"), block.get("input"))
        case "user":
            for block in message.each("content"):
                if block.get("type") == "tool_result":
                    told.result(block.text("tool_use_id"), block.words("content", "\n"))
        case "result":
            subtype, said = event.text("subtype"), event.text("result")
            told.limit = _LIMITS.get(subtype)
            cost, models = event.money("total_cost_usd"), event.at("modelUsage")
            # of all turns so far and of subagents, like the cost; `usage` is of the last turn
            every = total(map(_usage, map(models.at, models)))
            used = every if every.tokens else _usage(event.at("usage"))
            told.usage = replace(used, calls=event.number("num_turns"), cost_usd=cost)
            failed = event.get("is_error") is True or subtype.startswith("error")
            if failed and told.limit is None:
                reasons, status = event.get("errors"), event.number("api_error_status")
                listed = "; ".join(map(as_text, reasons)) if isinstance(reasons, list) else ""
                told.error = said or listed or event.at("error").text("message") or subtype
                told.error += f" (HTTP status {status})" if status else ""
            elif said:  # perhaps in a later turn, which the end of a background task started
                told.response, told.error = said, ""


def _codex(told: AgentTranscript, event: JsonObject) -> None:
    """`codex exec --json`: items, the turns' usage, and errors."""
    match event.get("type"):
        case "item.started" | "item.completed" as type_:
            _codex_item(told, event.at("item"), ended=type_ == "item.completed")
        case "turn.completed":
            told.spend(_usage(event.at("usage")))
        case "turn.failed":
            told.error = event.at("error").text("message") or "the turn failed"
        case "error":
            # Written at each reconnection; a failed turn has its own event.
            told.troubled(event.text("message"))


def _codex_item(told: AgentTranscript, item: JsonObject, *, ended: bool) -> None:
    """Tool items are read at start and end, to see commands that never end; others at the end."""
    key, output, code = item.text("id"), "", None
    match item.get("type"):
        case "command_execution":
            told.call(key, "shell", {"command": item.text("command")})
            output, code = item.text("aggregated_output"), item.get("exit_code")
        case "file_change":
            told.call(key, "file_change", {"changes": item.each("changes")})
            output = item.text("status")
        case "mcp_tool_call":
            name = f"{item.text('server')}.{item.text('tool')}"
            told.call(key, name, item.get("arguments") or {})
            output = item.at("error").text("message") or item.at("result").text("content")
        case kind:
            if ended and kind == "agent_message":
                told.turn("")
                told.say(item.text("text"))
            elif ended:
                told.tell(as_text(kind), item.text("text", "message", "query", "prompt"))
            return
    if ended:
        told.result(key, output, code)


def _copilot(told: AgentTranscript, event: JsonObject) -> None:
    """`--output-format json`: the session's events."""
    data, kind = event.at("data"), event.get("type")
    if kind == "assistant.message" and (tokens := data.number("outputTokens")):
        # These events omit prompt tokens, so the count is a lower bound.
        told.spend(Usage(calls=1, completion_tokens=tokens, cost_usd=None, estimated=True))
        told.trouble = ""
    if kind != "model.call_failure" and (event.get("agentId") or data.get("parentToolCallId")):
        return  # a subagent: its work is the result of the tool that started it
    match kind:
        case "assistant.message":
            told.turn(data.text("messageId"))
            told.say(data.text("content"))
            for one in data.each("toolRequests"):
                told.call(one.text("toolCallId"), one.text("name"), one.get("arguments") or {})
        case "tool.execution_complete":
            result = data.at("result")
            ended = [data.at("shellExecution"), *result.each("contents")]
            codes = [one["exitCode"] for one in ended if one.get("exitCode") is not None]
            output = result.text("content") or data.at("error").text("message")
            told.result(data.text("toolCallId"), output, codes[0] if codes else None)
        case "model.call_failure":
            told.troubled(f"HTTP {data.number('statusCode')} {data.text('errorMessage')}".strip())
        case "session.error":
            told.error = data.text("message") or "the session failed"


def _cursor(told: AgentTranscript, event: JsonObject) -> None:
    """`--output-format stream-json`: messages, tool calls begun and ended, and the result."""
    match event.get("type"):
        case "assistant":
            for block in event.at("message").each("content"):
                told.say(block.text("text"))
        case "tool_call":
            key, called = event.text("call_id"), event.at("tool_call")
            # The key whose value is an object names the tool: readToolCall, shellToolCall, …
            name = next((name for name, value in called.items() if isinstance(value, dict)), "tool")
            about = called.at(name)
            if event.get("subtype") == "started":
                named = about.text("name") or name.removesuffix("ToolCall")
                told.call(key, named, about.get("args") or about.get("arguments") or {})
            elif event.get("subtype") == "completed":
                ended = about.at("result", "success") or about.at("result", "failure")
                output = ended.get("content") or about.get("result")
                told.result(key, as_text(output), ended.get("exitCode"))
        case "result":
            said = event.text("result")
            if event.get("is_error") is True:
                told.error = said or "it failed"
            elif said and not told.spoke:
                # The result joins all messages; only the last one, if any, is the answer.
                told.response = said
            if counts := event.at("usage"):
                told.usage = _usage(counts)


def _gemini(told: AgentTranscript, event: JsonObject) -> None:
    """`--output-format stream-json`: messages (whole or in pieces), tools, and the result."""
    failure = event.at("error").text("message")
    match event.get("type"):
        case "message" if event.get("role") == "assistant":
            told.say(event.text("content"))
        case "tool_use":
            told.call(event.text("tool_id"), event.text("tool_name"), event.get("parameters") or {})
        case "tool_result":
            told.result(event.text("tool_id"), event.text("output") or failure)
        case "error":
            told.tell("error", event.text("message"))
        case "result":
            if stats := event.at("stats"):
                used = _usage(stats)
                # Its thoughts are in the total alone.
                said = stats.number("total_tokens") - used.prompt_tokens
                told.usage = replace(used, completion_tokens=max(used.completion_tokens, said))
            if event.get("status") == "error":
                told.error = failure or "it failed"


def _read(take: Callable[[AgentTranscript, JsonObject], None], output: str) -> AgentTranscript:
    told = AgentTranscript()
    for line in io.StringIO(output):
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                take(told, JsonObject(value))
    told.end()
    return told


def _read_text(output: str) -> AgentTranscript:
    told = AgentTranscript()
    if output.strip():
        told.say(output.strip())
    told.end()
    return told


#: Functions that parse a program's standard output; they never fail.
READERS: Mapping[str, Callable[[str], AgentTranscript]] = {
    "claude-code": partial(_read, _claude_code),
    "codex": partial(_read, _codex),
    "copilot": partial(_read, _copilot),
    "cursor": partial(_read, _cursor),
    "gemini": partial(_read, _gemini),
    "text": _read_text,
}

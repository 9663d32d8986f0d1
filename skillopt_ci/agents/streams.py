"""The streams of events that other people's agents write; facts and sources: docs/agents.md.

Each reader takes what it knows from a stream and passes over the rest, so that an event of a newer
version costs nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import Limit, ModelSaid, Step, Told, ToolUsed

Event = Mapping[str, object]

#: Larger amounts are mistakes.
_MOST = 1e15
#: Claude Code's name for a model where it speaks itself, and its limits.
_NO_MODEL = "<synthetic>"
_LIMITS = {"error_max_turns": Limit.STEPS, "error_max_budget_usd": Limit.COST}


@dataclass(frozen=True, slots=True)
class AgentTranscript:
    """A stream, read to its end.

    ``response`` is None where the agent gave no answer. ``usage`` is what it reports in all, None
    where it reports nothing. ``error`` is its own account of a failure, ``trouble`` what the
    model's server last answered in place of the model, and ``limit`` the limit of its own that it
    stopped at.
    """

    steps: tuple[Step, ...] = ()
    response: str | None = None
    usage: Usage | None = None
    error: str = ""
    limit: Limit | None = None
    trouble: str = ""

    @property
    def turns(self) -> int:
        """Answers of the model, as far as the stream tells them apart."""
        return sum(isinstance(step, ModelSaid) for step in self.steps)

    @property
    def messages(self) -> Iterator[Message]:
        """The conversation after the prompt."""
        for step in self.steps:
            if isinstance(step, ModelSaid):
                yield step.message
            elif isinstance(step, ToolUsed):
                yield Message("tool", step.output, tool_call_id=step.call.id)


#: Reads what a program wrote to its standard output; never fails on it.
Reader = Callable[[str], AgentTranscript]


@dataclass(slots=True)
class TranscriptBuilder:
    """Gathers a transcript from events in the order in which they come."""

    response: str | None = None
    usage: Usage | None = None
    error: str = ""
    limit: Limit | None = None
    trouble: str = ""
    _steps: list[Step] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)
    _turn_usage: Usage = field(default_factory=Usage)
    _turn: str = ""
    _known: set[str] = field(default_factory=set)
    _open: dict[str, ToolCall] = field(default_factory=dict)

    def turn(self, key: str, usage: Usage | None = None) -> None:
        """Begin the model's answer called ``key``, unless it is under way; usage counts once."""
        if key and key == self._turn:
            return
        self._end_turn()
        self._turn = key
        if usage is not None and key not in self._known:
            self._turn_usage = usage
            self._known.add(key)

    def say(self, text: object) -> None:
        """Add ``text`` to the answer."""
        self._text.append(_text(text))

    def call(self, call_id: object, name: object, arguments: object) -> None:
        """Add a use of a tool to the answer."""
        if isinstance(arguments, Mapping):
            arguments = dict(arguments)
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)
        call = ToolCall(_text(call_id) or f"call_{len(self._open)}", _text(name), written)
        self._calls.append(call)
        self._open[call.id] = call

    def result(self, call_id: object, output: str, exit_code: object = None) -> None:
        """Note what a tool gave back; one that nobody called is told of as such."""
        self._end_turn()
        call = self._open.pop(_text(call_id), None)
        if call is None:
            self._steps.append(Told("tool_result", output))
        else:
            code = exit_code if isinstance(exit_code, int) else None
            self._steps.append(ToolUsed(call, output, code))

    def tell(self, kind: str, text: str) -> None:
        """Note something that is neither an answer nor a tool."""
        self._end_turn()
        self._steps.append(Told(kind, text))

    def troubled(self, text: str) -> None:
        """Note that the model's server failed, and that the agent asks it again."""
        self.tell("error", text)
        self.trouble = text

    def spend(self, usage: Usage) -> None:
        """Add to what the agent reports in all."""
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def spoke(self) -> bool:
        """Whether the model's last answer so far has words in it."""
        return bool("".join(self._text).strip())

    def finished(self) -> AgentTranscript:
        """Return what was gathered; without an answer of its own, the last words are the answer."""
        self._end_turn()
        self._steps += [ToolUsed(call, "[no result was told]") for call in self._open.values()]
        said = [step.message.content for step in self._steps if isinstance(step, ModelSaid)]
        response = self.response
        if response is None and said and said[-1].strip():
            response = said[-1]
        return AgentTranscript(
            tuple(self._steps), response, self.usage, self.error, self.limit, self.trouble
        )

    def _end_turn(self) -> None:
        if self._text or self._calls:
            message = Message("assistant", "".join(self._text), tool_calls=tuple(self._calls))
            self._steps.append(ModelSaid(message, self._turn_usage))
            self.trouble = ""
        self._text, self._calls, self._turn_usage, self._turn = [], [], Usage(), ""


def _events(output: str) -> Iterator[Event]:
    """Yield the JSON objects of ``output``, one a line; whatever else stands there is skipped."""
    for line in output.split("\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _text(value: object) -> str:
    """Return a text from an event; what is no text as JSON, nothing for what is missing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _part(event: Event, *path: str) -> Event:
    """Return the object at ``path`` in ``event``, an empty one if there is none."""
    value: object = event
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _parts(value: object) -> list[Event]:
    """Return the objects of a list, none if it is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _words(content: object, between: str = "") -> str:
    """Return a text, or the texts of the blocks that stand in its place."""
    blocks = _parts(content)
    return between.join(_text(block.get("text")) for block in blocks) if blocks else _text(content)


def _money(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST else None


def _number(value: object) -> int:
    """Return a count from an event, 0 for what is none."""
    return int(_money(value) or 0)


def _usage(
    told: Event, *, prompt: tuple[str, ...], completion: str, cached: str, reasoning: str = ""
) -> Usage:
    """Read the usage of one call by the names that the agent has for its parts."""
    return Usage(
        calls=1,
        prompt_tokens=sum(_number(told.get(name)) for name in prompt),
        completion_tokens=_number(told.get(completion)),
        cached_tokens=_number(told.get(cached)),
        reasoning_tokens=_number(told.get(reasoning)),
        cost_usd=None,
    )


def _read_claude_code(output: str) -> AgentTranscript:
    """Read `--output-format stream-json --verbose`: messages, tool results, and the result."""
    builder = TranscriptBuilder()
    for event in _events(output):
        if event.get("parent_tool_use_id"):
            continue  # a helper that the agent started: its work is the result of that tool
        message = _part(event, "message")
        match event.get("type"):
            case "system" if event.get("subtype") == "api_retry":
                told = f"{_number(event.get('error_status')) or ''} {_text(event.get('error'))}"
                builder.troubled(f"API error {told.strip()}")
            case "assistant" if message.get("model") == _NO_MODEL:
                pass  # the program's own words about an error, which the result repeats
            case "assistant":
                # Several blocks come as several events with the same id and the same usage.
                builder.turn(_text(message.get("id")), _claude_code_usage(message))
                for block in _parts(message.get("content")):
                    if block.get("type") == "text":
                        builder.say(block.get("text"))
                    elif block.get("type") == "tool_use":
                        builder.call(block.get("id"), block.get("name"), block.get("input"))
            case "user":
                for block in _parts(message.get("content")):
                    if block.get("type") == "tool_result":
                        shown = _words(block.get("content"), "\n")
                        builder.result(block.get("tool_use_id"), shown)
            case "result":
                _claude_code_result(builder, event)
    return builder.finished()


def _claude_code_result(builder: TranscriptBuilder, event: Event) -> None:
    subtype, said = _text(event.get("subtype")), _text(event.get("result"))
    builder.limit = _LIMITS.get(subtype)
    told = _claude_code_usage(event)
    builder.usage = Usage(
        calls=_number(event.get("num_turns")),
        prompt_tokens=told.prompt_tokens,
        completion_tokens=told.completion_tokens,
        cached_tokens=told.cached_tokens,
        cost_usd=_money(event.get("total_cost_usd")),
    )
    failed = event.get("is_error") is True or subtype.startswith("error")
    if failed and builder.limit is None:
        reasons = event.get("errors")
        listed = "; ".join(map(_text, reasons)) if isinstance(reasons, list) else ""
        status = _number(event.get("api_error_status"))
        builder.error = said or listed or subtype
        builder.error += f" (HTTP status {status})" if status else ""
    elif said:
        builder.response = said


def _claude_code_usage(event: Event) -> Usage:
    cached = "cache_read_input_tokens"
    return _usage(
        _part(event, "usage"),
        prompt=("input_tokens", "cache_creation_input_tokens", cached),
        completion="output_tokens",
        cached=cached,
    )


def _read_codex(output: str) -> AgentTranscript:
    """Read `codex exec --json`: completed items, the turns' usage, and errors."""
    builder = TranscriptBuilder()
    for event in _events(output):
        match event.get("type"):
            case "item.completed":
                _codex_item(builder, _part(event, "item"))
            case "turn.completed":
                usage = _usage(
                    _part(event, "usage"),
                    prompt=("input_tokens",),
                    completion="output_tokens",
                    cached="cached_input_tokens",
                    reasoning="reasoning_output_tokens",
                )
                builder.spend(usage)
            case "turn.failed":
                builder.error = _text(_part(event, "error").get("message")) or "the turn failed"
            case "error":
                # Written each time a connection is taken up again; a failed turn has its own event.
                builder.troubled(_text(event.get("message")))
    return builder.finished()


def _codex_item(builder: TranscriptBuilder, item: Event) -> None:
    key = item.get("id")
    match item.get("type"):
        case "agent_message":
            builder.turn(_text(key))
            builder.say(item.get("text"))
        case "command_execution":
            builder.call(key, "shell", {"command": _text(item.get("command"))})
            builder.result(key, _text(item.get("aggregated_output")), item.get("exit_code"))
        case "file_change":
            builder.call(key, "file_change", {"changes": _parts(item.get("changes"))})
            builder.result(key, _text(item.get("status")))
        case "mcp_tool_call":
            name = f"{_text(item.get('server'))}.{_text(item.get('tool'))}"
            builder.call(key, name, item.get("arguments") or {})
            failure = _text(_part(item, "error").get("message"))
            builder.result(key, failure or _text(_part(item, "result").get("content")))
        case kind:
            builder.tell(_text(kind), _text(item.get("text") or item.get("message") or ""))


def _read_copilot(output: str) -> AgentTranscript:
    """Read `--output-format json`, in either form that GitHub's Copilot CLI writes.

    These are session events (`assistant.message`, …) and flat ones (`message`, `tool_use`, …).
    """
    builder = TranscriptBuilder()
    for event in _events(output):
        data = _part(event, "data")
        match event.get("type"):
            case "assistant.message":
                builder.turn(_text(data.get("messageId")))
                builder.say(data.get("content"))
                for asked in _parts(data.get("toolRequests")):
                    arguments = asked.get("arguments") or {}
                    builder.call(asked.get("toolCallId"), asked.get("name"), arguments)
                if tokens := _number(data.get("outputTokens")):
                    # These events tell nothing of the prompts: the count is a lower bound.
                    builder.spend(
                        Usage(calls=1, completion_tokens=tokens, cost_usd=None, estimated=True)
                    )
            case "tool.execution_complete":
                result = _part(data, "result")
                ended = [_part(data, "shellExecution"), *_parts(result.get("contents"))]
                codes = (each.get("exitCode") for each in ended)
                code = next((code for code in codes if isinstance(code, int)), None)
                failure = _text(_part(data, "error").get("message"))
                shown = _text(result.get("content")) or failure
                builder.result(data.get("toolCallId"), shown, code)
            case "model.call_failure":
                told = f"HTTP {_number(data.get('statusCode'))} {_text(data.get('errorMessage'))}"
                builder.troubled(told.strip())
            case "session.error":
                builder.error = _text(data.get("message")) or "the session failed"
            case "message" if event.get("role") in ("assistant", None):
                builder.say(_words(event.get("content")))
            case "tool_use":
                builder.call(event.get("id"), event.get("name"), event.get("input") or {})
            case "tool_result":
                shown = _words(event.get("content") or event.get("output"))
                builder.result(event.get("tool_use_id") or event.get("id"), shown)
            case "usage":
                usage = _usage(
                    _part(event, "usage") or event,
                    prompt=("input_tokens",),
                    completion="output_tokens",
                    cached="cache_read_input_tokens",
                )
                builder.spend(usage)
    return builder.finished()


def _read_cursor(output: str) -> AgentTranscript:
    """Read `--output-format stream-json`: messages, tool calls begun and ended, and the result."""
    builder = TranscriptBuilder()
    for event in _events(output):
        match event.get("type"):
            case "assistant":
                for block in _parts(_part(event, "message").get("content")):
                    builder.say(block.get("text"))
            case "tool_call":
                _cursor_tool_call(builder, event)
            case "result":
                said = _text(event.get("result"))
                if event.get("is_error") is True:
                    builder.error = said or "it failed"
                elif said and not builder.spoke:
                    # It joins all that was said; the last message alone is the answer, if any.
                    builder.response = said
                if usage := _part(event, "usage"):
                    builder.usage = _usage(
                        usage,
                        prompt=("inputTokens", "cacheReadTokens", "cacheWriteTokens"),
                        completion="outputTokens",
                        cached="cacheReadTokens",
                    )
    return builder.finished()


def _cursor_tool_call(builder: TranscriptBuilder, event: Event) -> None:
    key, called = event.get("call_id"), _part(event, "tool_call")
    # The one key besides particulars says which tool it is: readToolCall, shellToolCall, …
    name = next((name for name, value in called.items() if isinstance(value, Mapping)), "tool")
    about = _part(called, name)
    if event.get("subtype") == "started":
        named = _text(about.get("name")) or name.removesuffix("ToolCall")
        builder.call(key, named, about.get("args") or about.get("arguments") or {})
    elif event.get("subtype") == "completed":
        success = _part(about, "result", "success")
        shown = success.get("content") or about.get("result")
        builder.result(key, _text(shown), success.get("exitCode"))


def _read_gemini(output: str) -> AgentTranscript:
    """Read `--output-format stream-json`: messages (whole or in pieces), tools, and the result."""
    builder = TranscriptBuilder()
    for event in _events(output):
        failure = _text(_part(event, "error").get("message"))
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                builder.say(event.get("content"))
            case "tool_use":
                arguments = event.get("parameters") or {}
                builder.call(event.get("tool_id"), event.get("tool_name"), arguments)
            case "tool_result":
                builder.result(event.get("tool_id"), _text(event.get("output")) or failure)
            case "error":
                builder.tell("error", _text(event.get("message")))
            case "result":
                if stats := _part(event, "stats"):
                    builder.usage = _usage(
                        stats,
                        prompt=("input_tokens",),
                        completion="output_tokens",
                        cached="cached",
                    )
                if event.get("status") == "error":
                    builder.error = failure or "it failed"
    return builder.finished()


def _read_text(output: str) -> AgentTranscript:
    """Take all that a program printed for its answer."""
    builder = TranscriptBuilder()
    if output.strip():
        builder.say(output.strip())
    return builder.finished()


READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "claude-code": _read_claude_code,
        "codex": _read_codex,
        "copilot": _read_copilot,
        "cursor": _read_cursor,
        "gemini": _read_gemini,
        "text": _read_text,
    }
)

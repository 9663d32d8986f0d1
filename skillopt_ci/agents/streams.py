"""The streams of events that agents write, one module for each; facts and sources: docs/agents.md.

Every reader takes what it knows from a stream and passes over the rest, so that an event of a newer
version costs nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import Limit, ModelSaid, Step, Told, ToolUsed

# An agent's account of its work: what its stream of events comes to.

Event = Mapping[str, object]

#: Larger amounts are mistakes.
_MOST = 1e15


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


#: Reads the text that a program wrote to its standard output; never fails on it.
Reader = Callable[[str], AgentTranscript]


@dataclass(slots=True)
class TranscriptBuilder:
    """Gathers an account from events in the order in which they come."""

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

    def say(self, text: str) -> None:
        """Add ``text`` to the answer."""
        self._text.append(text)

    def call(self, call_id: str, name: str, arguments: object) -> None:
        """Add a use of a tool to the answer."""
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)
        call = ToolCall(call_id or f"call_{len(self._open)}", name, written)
        self._calls.append(call)
        self._open[call.id] = call

    def result(self, call_id: str, output: str, exit_code: int | None = None) -> None:
        """Note what a tool gave back; one that nobody called is told of as such."""
        self._end_turn()
        call = self._open.pop(call_id, None)
        if call is None:
            self._steps.append(Told("tool_result", output))
        else:
            self._steps.append(ToolUsed(call, output, exit_code))

    def tell(self, kind: str, text: str) -> None:
        """Note something that is neither an answer nor a tool."""
        self._end_turn()
        self._steps.append(Told(kind, text))

    def troubled(self, text: str) -> None:
        """Note that the model's server failed, and that the agent asks it again."""
        self.tell("error", text)
        self.trouble = text

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


def events(output: str) -> Iterator[Event]:
    """Yield the JSON objects of ``output``, one a line; whatever else stands there is skipped."""
    for line in output.split("\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def text(value: object) -> str:
    """Return a text from an event; what is no text as JSON, nothing for what is missing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def part(event: Event, *path: str) -> Event:
    """Return the object at ``path`` in ``event``, an empty one if there is none."""
    value: object = event
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def parts(value: object) -> list[Event]:
    """Return the objects of a list, none if it is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def money(value: object) -> float | None:
    """Return an amount from an event, None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST else None


def number(value: object) -> int:
    """Return a count from an event, 0 for what is none."""
    return int(money(value) or 0)


# Claude Code: `--output-format stream-json --verbose`.

_NO_MODEL = "<synthetic>"
_LIMITS = {"error_max_turns": Limit.STEPS, "error_max_budget_usd": Limit.COST}


def read_claude_code(output: str) -> AgentTranscript:
    """Read messages of assistant and user (tool results), and the result at the end."""
    scribe = TranscriptBuilder()
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
                _claude_code_result(scribe, event)
    return scribe.finished()


def _assistant(scribe: TranscriptBuilder, message: Event) -> None:
    # A message of several blocks comes as several events with the same id and the same usage.
    scribe.turn(text(message.get("id")), _claude_code_usage(part(message, "usage")))
    for block in parts(message.get("content")):
        match block.get("type"):
            case "text":
                scribe.say(text(block.get("text")))
            case "tool_use":
                scribe.call(text(block.get("id")), text(block.get("name")), block.get("input"))


def _tool_result(scribe: TranscriptBuilder, block: Event) -> None:
    if block.get("type") == "tool_result":
        content = block.get("content")
        blocks = parts(content)
        shown = "\n".join(text(each.get("text")) for each in blocks) if blocks else text(content)
        scribe.result(text(block.get("tool_use_id")), shown)


def _claude_code_result(scribe: TranscriptBuilder, event: Event) -> None:
    subtype = text(event.get("subtype"))
    scribe.limit = _LIMITS.get(subtype)
    told = _claude_code_usage(part(event, "usage"))
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


def _claude_code_usage(usage: Event) -> Usage:
    cached = number(usage.get("cache_read_input_tokens"))
    fresh = number(usage.get("input_tokens")) + number(usage.get("cache_creation_input_tokens"))
    return Usage(
        calls=1,
        prompt_tokens=fresh + cached,
        completion_tokens=number(usage.get("output_tokens")),
        cached_tokens=cached,
        cost_usd=None,
    )


# Codex: `codex exec --json`.


def read_codex(output: str) -> AgentTranscript:
    """Read completed items, the turns' usage, and errors."""
    scribe = TranscriptBuilder()
    for event in events(output):
        match event.get("type"):
            case "item.completed":
                _item(scribe, part(event, "item"))
            case "turn.completed":
                scribe.usage = (scribe.usage or Usage()) + _codex_usage(part(event, "usage"))
            case "turn.failed":
                scribe.error = text(part(event, "error").get("message")) or "the turn failed"
            case "error":
                # Written each time a connection is taken up again; a failed turn has its own event.
                scribe.troubled(text(event.get("message")))
    return scribe.finished()


def _item(scribe: TranscriptBuilder, item: Event) -> None:
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


def _codex_usage(usage: Event) -> Usage:
    return Usage(
        calls=1,
        prompt_tokens=number(usage.get("input_tokens")),
        completion_tokens=number(usage.get("output_tokens")),
        cached_tokens=number(usage.get("cached_input_tokens")),
        reasoning_tokens=number(usage.get("reasoning_output_tokens")),
        cost_usd=None,
    )


# GitHub Copilot CLI: `--output-format json`, in either of the two forms that it writes.


def read_copilot(output: str) -> AgentTranscript:
    """Read session events (`assistant.message`, …) and flat ones (`message`, `tool_use`, …)."""
    scribe = TranscriptBuilder()
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
                scribe.usage = (scribe.usage or Usage(cost_usd=None)) + _copilot_usage(event)
    return scribe.finished()


def _message(scribe: TranscriptBuilder, data: Event) -> None:
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


def _completed(scribe: TranscriptBuilder, data: Event) -> None:
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


def _copilot_usage(event: Event) -> Usage:
    told = part(event, "usage") or event
    return Usage(
        calls=1,
        prompt_tokens=number(told.get("input_tokens")),
        completion_tokens=number(told.get("output_tokens")),
        cached_tokens=number(told.get("cache_read_input_tokens")),
        cost_usd=None,
    )


# Cursor's agent: `--output-format stream-json`.


def read_cursor(output: str) -> AgentTranscript:
    """Read the assistant's messages, tool calls that began and ended, and the result."""
    scribe = TranscriptBuilder()
    for event in events(output):
        match event.get("type"):
            case "assistant":
                for block in parts(part(event, "message").get("content")):
                    scribe.say(text(block.get("text")))
            case "tool_call":
                _tool_call(scribe, event)
            case "result":
                _cursor_result(scribe, event)
    return scribe.finished()


def _tool_call(scribe: TranscriptBuilder, event: Event) -> None:
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


def _cursor_result(scribe: TranscriptBuilder, event: Event) -> None:
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


# Gemini CLI: `--output-format stream-json`.


def read_gemini(output: str) -> AgentTranscript:
    """Read messages (whole or in pieces), tool calls, tool results, and the result at the end."""
    scribe = TranscriptBuilder()
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
                scribe.usage = _gemini_usage(part(event, "stats"))
                if event.get("status") == "error":
                    scribe.error = text(part(event, "error").get("message")) or "it failed"
    return scribe.finished()


def _gemini_usage(stats: Event) -> Usage | None:
    if not stats:
        return None
    return Usage(
        calls=1,
        prompt_tokens=number(stats.get("input_tokens")),
        completion_tokens=number(stats.get("output_tokens")),
        cached_tokens=number(stats.get("cached")),
        cost_usd=None,
    )


# A program that prints its answer and nothing else.


def read_plain(output: str) -> AgentTranscript:
    """Take all of ``output`` for the answer."""
    scribe = TranscriptBuilder()
    if output.strip():
        scribe.say(output.strip())
    return scribe.finished()

"""An agent's account of its work: what its stream of events comes to."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.steps import Limit, ModelSaid, Step, Told, ToolUsed

Event = Mapping[str, object]

#: Larger amounts are mistakes.
_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Account:
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
Reader = Callable[[str], Account]


@dataclass(slots=True)
class Scribe:
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

    def finished(self) -> Account:
        """Return what was gathered; without an answer of its own, the last words are the answer."""
        self._end_turn()
        self._steps += [ToolUsed(call, "[no result was told]") for call in self._open.values()]
        said = [step.message.content for step in self._steps if isinstance(step, ModelSaid)]
        response = self.response
        if response is None and said and said[-1].strip():
            response = said[-1]
        return Account(
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

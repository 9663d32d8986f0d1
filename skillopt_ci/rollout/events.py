"""Events of an attempt: typed here, one JSON object for each in the record."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.redaction import Redact, redacted_line, unchanged
from skillopt_ci.rollout.types import Asked, Limit, Rollout, Status, Step, attempt_context

#: Version of the events' keys; readers ignore unknown keys.
EVENTS_VERSION = 1
#: The most files of a run, and bytes in them, that are kept when a new file is begun.
KEPT_FILES = 100
KEPT_BYTES = 1_000_000_000
#: Keys whose values readers count with.
_NUMBERS = ("attempt", "retry", "hard", "soft", "calls", "tokens", "cost_usd", "artifact_bytes")


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A solver begins to work; ``skill_sha256`` names the text that it reads."""

    solver: str
    skill_sha256: str


@dataclass(frozen=True, slots=True)
class TryFailed:
    """A try ended in an infrastructure error; the attempt may be tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """The work is done and can be graded.

    ``response`` is None where it is what the model said last. ``key`` is that of the stored
    attempt, empty if it is not stored; ``stored`` says that it was found there.
    """

    response: str | None
    key: str = ""
    stored: bool = False
    limit: Limit | None = None
    artifact_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    status: Status
    hard: float
    soft: float
    reason: str
    turns: int
    retries: int
    calls: int
    tokens: int
    cost_usd: float | None

    @classmethod
    def of(cls, one: Rollout) -> "AttemptEnded":
        said = (one.status, one.hard, one.soft, one.reason, one.n_turns, one.retries)
        return cls(*said, one.usage.calls, one.usage.tokens, one.usage.cost_usd)


RolloutEvent = AttemptStarted | TryFailed | WorkEnded | AttemptEnded | Step

#: Receives the current attempt's events; must be quick and not raise.
Recorder = Callable[[RolloutEvent], object]


@dataclass(eq=False)
class EventLog:
    """Appends events to ``file`` in whole lines, which survive a kill of this process.

    Each event has the run, its attempt's labels, a number and a time. ``redact`` removes secrets.
    A full disk ends the record, not the work; ``observe`` gets a note at the end.
    """

    file: Path
    run: str
    redact: Redact = unchanged
    observe: Observer = silent
    _numbers: Iterator[int] = field(default_factory=count, init=False)
    _stream: FileIO | None = field(default=None, init=False)
    _known: set[str] = field(default_factory=set, init=False)
    _failure: str = field(default="", init=False)

    def __call__(self, event: RolloutEvent) -> None:
        if self._failure:
            return
        content = {
            "v": EVENTS_VERSION,
            "seq": next(self._numbers),
            "ts": datetime.now(UTC).isoformat(timespec="microseconds"),
            "run": self.run,
            **attempt_context(),
            "type": re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower(),
            **_shallow(event),
        }
        if isinstance(event, Asked):
            content["messages"] = shown = [_shallow(message) for message in event.messages]
            for message in shown:
                if message["role"] == "system":
                    text = str(message["content"]).encode("utf-8", "surrogatepass")
                    message["sha256"] = name = hashlib.sha256(text).hexdigest()
                    if name in self._known:
                        message["content"] = None
                    self._known.add(name)
        try:
            # ASCII, since a model's text may not be valid UTF-8
            line = json.dumps(content, allow_nan=False, default=_shallow)
        except ValueError:  # NaN and infinities become null
            written = json.dumps(content, default=_shallow)
            line = json.dumps(json.loads(written, parse_constant=lambda _: None))
        rest = memoryview(f"{redacted_line(line, self.redact)}\n".encode())
        try:
            if self._stream is None:  # work without attempts leaves no file
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self._stream = FileIO(self.file, "ab")
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError as error:
            self._failure = f"{self.file}: {error.strerror}"

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._failure:
            self.observe(Note(f"The record of events is incomplete: {self._failure}", "warning"))


def _shallow(value: object) -> dict[str, object]:
    """The fields of a dataclass with slots, not converted, so that no text is copied."""
    return {name: getattr(value, name) for name in value.__slots__}  # type: ignore[attr-defined]


def event_file(folder: Path, scope: str, now: datetime) -> Path:
    """A new file in ``folder`` for the work ``scope``; removes the oldest, never all."""
    total = 0
    for number, file in enumerate(sorted(folder.glob("*.jsonl"), reverse=True), start=1):
        total += file.stat().st_size if file.exists() else 0
        if number >= KEPT_FILES or (total > KEPT_BYTES and number > 1):
            file.unlink(missing_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in scope or "shard")[-60:]
    return folder / f"{now:%Y%m%dT%H%M%S%fZ}-{name}.jsonl"


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """The recorded events of a run, oldest first; skips torn and foreign lines."""
    for file in sorted(folder.glob("*.jsonl")):
        known: dict[str, str] = {}
        with file.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if not (
                    isinstance(event, dict)
                    and event.get("v") == EVENTS_VERSION
                    and all(isinstance(event.get(name) or 0, int | float) for name in _NUMBERS)
                ):
                    continue
                for message in event.get("messages") or ():
                    # each system prompt is in the file only once
                    if (name := message.get("sha256")) is not None:
                        shown = message.get("content")
                        known[name] = known.get(name, "") if shown is None else shown
                        message["content"] = known[name]
                yield event


@dataclass(slots=True)
class AttemptTrace:
    """One recorded attempt: the ``events`` of all its tries, in order."""

    stage: str
    task: str
    attempt: int
    solver: str = ""
    skill_sha256: str = ""
    events: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def end(self) -> Mapping[str, Any] | None:
        return self._last("attempt_ended")

    @property
    def work(self) -> Mapping[str, Any] | None:
        return self._last("work_ended")

    @property
    def response(self) -> str:
        work, said = self.work or {}, self._last("model_said") or {}
        response = work.get("response")
        return str(said.get("message", {}).get("content", "") if response is None else response)

    def _last(self, kind: str) -> Mapping[str, Any] | None:
        return next((one for one in reversed(self.events) if one.get("type") == kind), None)


def attempt_traces(events: Iterable[Mapping[str, Any]]) -> Iterator[AttemptTrace]:
    """The attempts in ``events`` in the order of their ends; unfinished ones where a file ends."""
    under_way: dict[tuple[object, ...], AttemptTrace] = {}
    for event in events:
        if event.get("seq") == 0:  # a new file, in which nothing of an earlier one goes on
            yield from under_way.values()
            under_way.clear()
        # two skills may be at work on a task at a time; older records do not tell them apart
        key = tuple(event.get(label) for label in ("stage", "task", "attempt", "skill"))
        if event.get("type") == "attempt_started":
            under_way[key] = AttemptTrace(
                stage=str(event.get("stage")),
                task=str(event.get("task")),
                attempt=int(event.get("attempt") or 0),
                solver=str(event.get("solver", "")),
                skill_sha256=str(event.get("skill_sha256", "")),
            )
        if key in under_way:
            under_way[key].events.append(event)
            if event.get("type") == "attempt_ended":
                yield under_way.pop(key)
    yield from under_way.values()

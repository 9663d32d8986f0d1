"""The record of what happens in attempts: one file of JSON lines for each piece of work."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import is_dataclass
from datetime import UTC, datetime
from io import FileIO
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.redaction import Redact, redacted_line, unchanged
from skillopt_ci.rollout.events import EVENTS_VERSION, RolloutEvent, as_json, shallow
from skillopt_ci.rollout.labels import labels

#: So many files of a run are kept, the newest ones.
KEPT_FILES = 100


class EventLog:
    """Appends events to ``file``, whole lines only; a thread of its own waits for the disk.

    Each carries the run, the labels of its attempt, its number and its time. ``redact`` takes the
    secrets out. A disk that is full ends the record, not the work: ``observe`` is
    told at the end.
    """

    def __init__(
        self,
        file: Path,
        run: str,
        *,
        redact: Redact = unchanged,
        observe: Observer = silent,
        now: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
    ) -> None:
        self._file = file
        self._run = run
        self._redact = redact
        self._observe = observe
        self._now = now
        self._numbers = count()
        self._queue = SimpleQueue[str | None]()
        self._known: set[str] = set()
        self._failure = ""
        self._ended = False
        self._writer = Thread(target=self._write, name="events", daemon=True)
        self._writer.start()

    def __call__(self, event: RolloutEvent) -> None:
        """Record ``event`` of the attempt that is under way."""
        self._queue.put(self._line(event))

    def close(self) -> None:
        """Return when everything is on disk."""
        self._queue.put(None)
        self._writer.join()
        if self._failure:
            self._observe(Note(f"The record of events is incomplete: {self._failure}", "warning"))

    def _write(self) -> None:
        try:
            with ExitStack() as resources:
                stream: FileIO | None = None
                for lines in self._batches():
                    if lines and stream is None:  # work that makes no attempt leaves no file
                        self._file.parent.mkdir(parents=True, exist_ok=True)
                        stream = resources.enter_context(FileIO(self._file, "ab"))
                    if stream is not None:
                        _write_all(stream, lines.encode())
        except OSError as error:
            self._failure = str(error)
            for _ in self._batches():
                pass  # what cannot be written must not pile up

    def _batches(self) -> Iterator[str]:
        """What has come since the last time, again and again until the end."""
        while not self._ended:
            lines = [self._queue.get()]
            while not self._queue.empty():
                lines.append(self._queue.get())
            self._ended = None in lines
            yield "".join(filter(None, lines))

    def _line(self, event: RolloutEvent) -> str:
        now = datetime.fromtimestamp(self._now(), UTC)
        content = {
            "v": EVENTS_VERSION,
            "seq": next(self._numbers),
            "ts": now.isoformat(timespec="microseconds"),
            "run": self._run,
            **shallow(labels()),
            **self._once(as_json(event)),
        }
        try:
            # ASCII: what a model wrote need not be writable as UTF-8
            line = json.dumps(content, allow_nan=False, default=shallow)
        except ValueError:
            line = json.dumps(_finite(content), allow_nan=False)
        return redacted_line(line, self._redact) + "\n"

    def _once(self, event: dict[str, object]) -> dict[str, object]:
        """The event, with the system prompt only where the file does not have it yet."""
        messages = event.get("messages")
        if not isinstance(messages, tuple | list):
            return event
        return {**event, "messages": [self._short(shallow(message)) for message in messages]}

    def _short(self, message: dict[str, object]) -> dict[str, object]:
        if message["role"] != "system":
            return message
        content = str(message["content"]).encode("utf-8", "surrogatepass")
        name = hashlib.sha256(content).hexdigest()
        known = name in self._known
        self._known.add(name)
        return {**message, "sha256": name, **({"content": None} if known else {})}


def _write_all(stream: FileIO, content: bytes) -> None:
    """Write without a buffer: what is written survives this process."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]


def _finite(value: object) -> object:
    """``value`` with null for numbers that JSON has no words for."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if is_dataclass(value):
        return _finite(shallow(value))
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def event_file(folder: Path, scope: str, now: datetime) -> Path:
    """A new file in ``folder`` for the work ``scope``; files beyond the newest are removed."""
    for old in sorted(folder.glob("*.jsonl"))[: -KEPT_FILES + 1]:
        old.unlink(missing_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in scope or "shard")[-60:]
    return folder / f"{now:%Y%m%dT%H%M%S%fZ}-{name}.jsonl"


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """The recorded events of a run, oldest first.

    A last line that a dying process left unfinished is passed over, and so is what is not ours.
    """
    for file in sorted(folder.glob("*.jsonl")):
        known: dict[str, str] = {}
        with file.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict) and event.get("v") == EVENTS_VERSION:
                    _complete(event, known)
                    yield event


def _complete(event: dict[str, Any], known: dict[str, str]) -> None:
    """Put the system prompts back that stand in the file only once."""
    for message in event.get("messages") or ():
        name = message.get("sha256")
        if name is not None and message.get("content") is not None:
            known[name] = message["content"]
        elif name is not None:
            message["content"] = known.get(name, "")

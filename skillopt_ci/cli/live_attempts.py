"""What a run is at, told by the record of events that it is writing."""

import json
from collections import Counter
from pathlib import Path
from threading import Lock

from skillopt_ci.report.text import plural

_WORDS = {
    "rollout": "training tasks",
    "selection": "selection tasks",
    "slow_rollout": "training tasks at the end of the epoch",
    "race": "races of edits",
}


class LiveAttempts:
    """Counts the attempts of the newest file of events. Safe to use from several threads.

    Of each file only what is new is read, whole lines alone: the last one may be half written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._file: Path | None = None
        self._place = 0
        self._ended = Counter[str]()
        self._solved = Counter[str]()

    def told(self) -> str:
        """What was attempted in the newest piece of work, by stage; empty if nothing was."""
        with self._lock:
            newest = max(self._folder.glob("*.jsonl"), default=None)
            if newest != self._file:
                self._file, self._place = newest, 0
                self._ended.clear()
                self._solved.clear()
            if newest is not None:
                self._read(newest)
            return ", ".join(
                f"{plural(count, 'attempt')} at {_WORDS.get(stage, f'{stage} tasks')} "
                f"({self._solved[stage]} solved)"
                for stage, count in self._ended.items()
            )

    def _read(self, file: Path) -> None:
        try:
            with file.open("rb") as stream:
                stream.seek(self._place)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._place += len(line)
                    self._count(line)
        except OSError:  # removed by the run, which keeps the newest files only
            return

    def _count(self, line: bytes) -> None:
        if b'"attempt_ended"' not in line:
            return
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict) and event.get("type") == "attempt_ended":
            stage = str(event.get("stage"))
            self._ended[stage] += 1
            self._solved[stage] += event.get("hard") == 1

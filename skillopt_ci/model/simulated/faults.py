"""When the simulated server misbehaves, and what it has counted."""

import threading
from collections import Counter
from dataclasses import dataclass, field

from skillopt_ci.model.simulated.dice import Dice

FAULTS = ("rate_limited", "server_error", "cut_connection", "truncated_json")

#: A client that tries five times gets its answer.
MOST_FAULTS_IN_A_ROW = 4


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server answers from, and how badly.

    ``fault_rate`` is the share of tries that fail, ``latency`` seconds pass before each reply,
    and ``retry_after`` is what a 429 asks for, in seconds.
    """

    seed: int = 0
    fault_rate: float = 0.0
    latency: float = 0.0
    retry_after: int = 0


def fault_of(content: str, attempt: int, *, seed: int, rate: float) -> str | None:
    """Return the fault that befalls this try (from 0) at this content, None if it is answered."""
    dice = Dice(seed, content)
    streak = 0
    for number in range(attempt + 1):
        unlucky = streak < MOST_FAULTS_IN_A_ROW and dice.chance(f"try {number}", rate)
        streak = streak + 1 if unlucky else 0
    return dice.pick(f"fault {attempt}", FAULTS) if streak else None


@dataclass(slots=True)
class Tally:
    """Counts requests; safe to use from several threads."""

    requests: int = 0
    tries: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def next_try(self, content: str) -> int:
        """Count a request and return how many came before it for the same content."""
        with self._lock:
            self.requests += 1
            self.tries[content] += 1
            return self.tries[content] - 1

    def note_answer(self, content: str) -> None:
        """Count a reply that is sent whole."""
        with self._lock:
            self.answered[content] += 1

    def note_fault(self, kind: str) -> None:
        """Count a fault of this kind."""
        with self._lock:
            self.faults[kind] += 1

    def snapshot(self) -> dict[str, object]:
        """Return the counts as JSON-ready values."""
        with self._lock:
            return {
                "requests": self.requests,
                "answered": self.answered.total(),
                "faults": dict(self.faults),
                "answered_per_content": dict(self.answered),
            }

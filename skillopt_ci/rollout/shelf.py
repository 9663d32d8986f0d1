"""What was paid for is not done again: attempts and grades in the store, and who pays for them."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED
from skillopt_ci.model.types import Account, Role, Usage
from skillopt_ci.rollout.kept_shape import packed
from skillopt_ci.rollout.order import Order
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.rollout.work import Worked
from skillopt_ci.scorers.base import Score
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import task_sha256

#: Artifacts larger than this are compressed beside the event loop.
_LARGE = 200_000


@dataclass(frozen=True, slots=True)
class Shelf:
    """The attempts of one ``scope``.

    ``facts`` are the JSON facts that determine attempts besides task, skill and number. What this
    very scope paid for (in a process that died) is charged to ``meter`` once more, and so is what
    another machine obtained and nobody has accounted for. ``used`` hears the key of every attempt.
    """

    store: AttemptStore
    facts: Mapping[str, object]
    scope: str
    meter: Meter
    used: Callable[[str], object] = lambda _: None
    accounted: set[str] = field(default_factory=set)

    def key(self, order: Order, limits: Mapping[str, object]) -> str:
        """SHA-256 in hex over everything that determines the attempt."""
        return sha256_of(
            {
                **self.facts,
                "skill": as_read(order.skill),
                "task": task_sha256(order.task),
                "attempt": order.attempt,
                "limits": limits,
            }
        )

    def holds(self, key: str) -> bool:
        """Whether the attempt with this key was made before; nobody is charged for the question."""
        return self.store.get(key) is not None

    def find(self, key: str, stage: str) -> Worked | None:
        """The attempt with this key, if it was made before."""
        known = self.store.get(key)
        if known is None:
            return None
        self.used(key)
        self._account(key, known.paid_by, known.usage, stage)
        return known.worked

    async def keep(self, key: str, worked: Worked, usage: Usage) -> None:
        """Keep an attempt for which ``usage`` was charged."""
        artifacts = worked.attempt.artifacts
        content = await asyncio.to_thread(packed, artifacts) if len(artifacts) > _LARGE else None
        self.store.put(key, worked, usage=usage, paid_by=self.scope, artifacts=content)
        self.accounted.add(key)
        self.used(key)

    def find_grade(self, key: str, scorer: str) -> Score | None:
        """The grade of an attempt by the scorer with these facts, if it was given before."""
        return self.store.grade(key, scorer)

    def keep_grade(self, key: str, scorer: str, score: Score) -> None:
        """Keep a grade; it must have cost nothing."""
        self.store.put_grade(key, scorer, score)

    def _account(self, key: str, paid_by: str, usage: Usage, stage: str) -> None:
        ours = paid_by == self.scope or (paid_by == UNCLAIMED and self.store.claim(key, self.scope))
        if usage == Usage():
            return
        if ours and key not in self.accounted:
            self.accounted.add(key)
            self.meter.charge(Account(Role.TARGET, stage), usage)
        else:
            self.meter.reuse()


def sha256_of(facts: Mapping[str, object]) -> str:
    """SHA-256 in hex over JSON facts."""
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()

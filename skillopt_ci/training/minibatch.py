"""Minibatches: the trajectories that one analyst reads together."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skillopt_ci.config.config import Gradient
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.edits import Source


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """Trajectories of one kind that one analyst reads; ``name`` is for people."""

    source_type: Source
    rollouts: tuple[Rollout, ...]
    name: str


class Dealer:
    """Deals measured trajectories to minibatches of failures and of successes, as they come.

    Attempts that ended in an error, or of which there is no conversation, belong to neither. A
    minibatch is complete when it is full, or when the next trajectory would make it too long.
    """

    def __init__(self, gradient: Gradient) -> None:
        self._gradient = gradient
        self._open: dict[Source, list[Rollout]] = {"failure": [], "success": []}
        self._room = dict.fromkeys(self._open, gradient.max_minibatch_chars)
        self._count: Counter[Source] = Counter()

    def deal(self, rollout: Rollout) -> Iterator[Minibatch]:
        """Take a trajectory; yield the minibatches that are complete by it."""
        source = self._source(rollout)
        if source is None:
            return
        size = _shown_chars(rollout, self._gradient)
        if size > self._room[source]:
            yield from self._closed(source)
        self._open[source].append(rollout)
        self._room[source] -= size
        if len(self._open[source]) == self._gradient.minibatch_size:
            yield from self._closed(source)

    def rest(self) -> Iterator[Minibatch]:
        """Yield what is left, when no more trajectories come."""
        for source in self._open:
            yield from self._closed(source)

    def _source(self, rollout: Rollout) -> Source | None:
        if not rollout.messages:
            return None
        if rollout.failed:
            return "failure"
        return "success" if rollout.succeeded and not self._gradient.failure_only else None

    def _closed(self, source: Source) -> Iterator[Minibatch]:
        self._room[source] = self._gradient.max_minibatch_chars
        if self._open[source]:
            self._count[source] += 1
            name = f"{source} minibatch {self._count[source]}"
            yield Minibatch(source, tuple(self._open[source]), name)
            self._open[source] = []


def minibatches(rollouts: Iterable[Rollout], gradient: Gradient) -> list[Minibatch]:
    """The minibatches of ``rollouts``, failures first."""
    dealer = Dealer(gradient)
    work = [complete for rollout in rollouts for complete in dealer.deal(rollout)]
    return sorted((*work, *dealer.rest()), key=lambda one: one.source_type)


def _shown_chars(rollout: Rollout, gradient: Gradient) -> int:
    """About how much of a prompt a trajectory takes up; the system prompt is shown only once."""
    said = sum(len(one.content) for one in rollout.messages if one.role != "system")
    return min(said + len(rollout.trace), gradient.max_trajectory_chars)

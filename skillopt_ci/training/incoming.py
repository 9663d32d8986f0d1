"""Incoming: what the attempts of a duel come to, before all that were asked for are there."""

from collections.abc import Callable, Iterable, Mapping

from skillopt_ci.rollout.types import Rollout
from skillopt_ci.training.measure import Scores


class Incoming:
    """The candidate's attempts as they come, ``each`` at every task.

    ``completed`` is called whenever the last attempt at a task is there.
    """

    def __init__(self, each: int) -> None:
        self.completed: Callable[[], object] = lambda: None
        self._each = each
        self._made: dict[str, list[Rollout]] = {}

    def add(self, rollout: Rollout) -> None:
        """Tell of an attempt."""
        made = self._made.setdefault(rollout.task_id, [])
        made.append(rollout)
        if len(made) == self._each:
            self.completed()

    def lacks(self, tasks: Iterable[str]) -> int:
        """Of how many tasks attempts are still to come."""
        return sum(len(self._made.get(task, ())) < self._each for task in tasks)

    def scores(self) -> Mapping[str, tuple[float, float]]:
        """(Hard, soft) scores of the tasks of which all attempts came, where any was measured."""
        whole = (made for made in self._made.values() if len(made) >= self._each)
        return Scores.of(one for made in whole for one in made).means()

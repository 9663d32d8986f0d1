from collections.abc import Callable
from typing import Any

from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.training.evaluate import Arrived

MakeRollout = Callable[..., Rollout]


def came(make: MakeRollout, *tasks: str, each: int = 1, **changes: Any) -> Arrived:
    incoming = Arrived(each)
    for task in tasks:
        incoming.add(make(task, **changes))
    return incoming


def test_tasks_that_lack_an_attempt_are_counted(make_rollout: MakeRollout) -> None:
    incoming = came(make_rollout, "a", "b", "a", each=2)
    assert incoming.lacks(["a"]) == 0
    assert incoming.lacks(["a", "b", "c"]) == 2


def test_scores_are_those_of_whole_tasks(make_rollout: MakeRollout) -> None:
    incoming = came(make_rollout, "a", "b", each=2, hard=1.0)
    assert incoming.scores() == {}
    incoming.add(make_rollout("a", soft=0.5))
    assert incoming.scores() == {"a": (0.5, 0.75)}


def test_what_could_not_be_measured_has_come_and_has_no_score(make_rollout: MakeRollout) -> None:
    incoming = came(make_rollout, "a", status=Status.ERROR)
    assert incoming.lacks(["a"]) == 0
    assert incoming.scores() == {}


def test_each_completed_task_is_told_once(make_rollout: MakeRollout) -> None:
    incoming, told = Arrived(2), list[int]()
    incoming.completed = lambda: told.append(incoming.lacks("ab"))
    for task in ("a", "b", "b", "a", "a"):
        incoming.add(make_rollout(task))
    assert told == [1, 0]

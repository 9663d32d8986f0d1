"""The rules that make three lists of tasks into honest splits."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from skillopt_ci.tasks.identity import content_key
from skillopt_ci.tasks.problems import Problem, location
from skillopt_ci.tasks.task import Task

NamedSplits = Mapping[str, Sequence[Task]]


def repeated_ids(splits: NamedSplits) -> Iterator[Problem]:
    """Tasks whose id was taken before, in whichever split."""
    for _, task, _, first in _repeats(splits, lambda task: task.id):
        where = location(first.file, first.line)
        yield Problem(task.file, task.line, f"id {task.id!r} is already used at {where}")


def overlaps(splits: NamedSplits) -> Iterator[Problem]:
    """Tasks that ask in one split what another split asks already."""
    for name, task, first_name, first in _repeats(splits, content_key):
        if name != first_name:
            yield Problem(
                task.file,
                task.line,
                f"task {task.id!r} of the {name} split asks the same as task {first.id!r} of the "
                f"{first_name} split at {location(first.file, first.line)}",
            )


def _repeats(
    splits: NamedSplits, key_of: Callable[[Task], str]
) -> Iterator[tuple[str, Task, str, Task]]:
    first_with: dict[str, tuple[str, Task]] = {}
    for name, tasks in splits.items():
        for task in tasks:
            first = first_with.setdefault(key_of(task), (name, task))
            if first[1] is not task:
                yield name, task, *first

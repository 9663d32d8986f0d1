"""Whether there are tasks enough to learn from and to judge by, in words."""

from collections.abc import Iterator

from skillopt_ci.report.text import plural
from skillopt_ci.stats import wilson

#: From so many on the 95 % interval of a score is no wider than ±0.2.
ENOUGH = 20
#: Fewer training tasks than this teach their own answers rather than a rule.
ENOUGH_TO_LEARN = 10
PLENTY = 100


def few_tasks(train: int, selection: int, test: int) -> Iterator[str]:
    """Say of each split that is too small what that does, and how many tasks would do."""
    if train < ENOUGH_TO_LEARN:
        yield (
            f"only {plural(train, 'training task')}: what is learned will fit these and little "
            f"else; {ENOUGH_TO_LEARN} or more of different kinds show what they have in common"
        )
    if selection < ENOUGH:
        yield (
            f"only {plural(selection, 'selection task')}: with so few, the gate decides largely by "
            f"chance; {_known_to(selection)}. `skillopt-ci calibrate` measures it for your tasks"
        )
    if test == 0:
        yield (
            "there are no test tasks: the final score will not be checked on unseen ones; give "
            f"tasks.test a file with {ENOUGH} or more"
        )
    elif test < ENOUGH:
        yield (
            f"only {plural(test, 'test task')}: the final score will be known to "
            f"±{half_width(test):.2f} or so (95 %)"
        )


def _known_to(tasks: int) -> str:
    return (
        f"a score of 0.5 is known to ±{half_width(tasks):.2f} (95 %), with {ENOUGH} tasks to "
        f"±{half_width(ENOUGH):.2f}, with {PLENTY} to ±{half_width(PLENTY):.2f}"
    )


def half_width(tasks: int) -> float:
    """Half of the 95 % interval around a score of 0.5, where it is widest."""
    interval = wilson(0.5, tasks)
    return (interval.high - interval.low) / 2

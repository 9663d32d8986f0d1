"""Create something exactly once although answers get lost."""

from collections.abc import Callable
from typing import TypeVar

from skillopt_ci.github.failure import AnswerLost

T = TypeVar("T")

_PAUSES = (1.0, 5.0)


def create_once(
    create: Callable[[], T], find: Callable[[], T | None], wait: Callable[[float], None]
) -> T:
    """Create it; after a lost answer look whether it is there before asking again.

    Raises AnswerLost after three attempts, and whatever else ``create`` and ``find`` raise.
    """
    for pause in _PAUSES:
        try:
            return create()
        except AnswerLost:
            wait(pause)
            found = find()
            if found is not None:
                return found
    return create()

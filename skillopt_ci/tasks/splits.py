"""The names of the splits, and those that SkillOpt has for them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from skillopt_ci.errors import UsageError
from skillopt_ci.tasks.problems import did_you_mean
from skillopt_ci.tasks.task import Splits, Task

SplitName = Literal["train", "selection", "test"]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "selection", "test")

#: Every accepted name of a split; the first for each is its folder in a split folder.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "train": "train",
        "val": "selection",
        "selection": "selection",
        "valid_seen": "selection",
        "test": "test",
        "valid_unseen": "test",
    }
)


def tasks_of(splits: Splits, name: str) -> tuple[Task, ...]:
    """The split called ``name``, by any of its names; raises :class:`UsageError` for another."""
    if name not in ALIASES:
        raise UsageError(f"there is no split {name!r}; {did_you_mean(name, ALIASES)}")
    chosen: tuple[Task, ...] = getattr(splits, ALIASES[name])
    return chosen

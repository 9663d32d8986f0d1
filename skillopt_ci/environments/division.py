"""Dividing one list of tasks into the three splits, where a source has but one."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import Field

from skillopt_ci.config.base import Section
from skillopt_ci.errors import UsageError
from skillopt_ci.rollout.environment import Split
from skillopt_ci.tasks.loading import SPLIT_NAMES, divide

Item = TypeVar("Item")


class Division(Section):
    """How a list of tasks is divided."""

    split: str = Field(default="2:1:7", pattern=r"^[1-9]\d*:[1-9]\d*:[1-9]\d*$")
    """Shares train:selection:test as positive whole numbers, such as 2:1:7."""
    seed: int = 42
    """Seed of the shuffle."""
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""

    def divided(self, items: Sequence[Item]) -> dict[Split, tuple[Item, ...]]:
        """Divide ``items``, always the same way; raises UsageError if a split stays empty."""
        parts = dict(zip(SPLIT_NAMES, divide(items, self.split, self.seed), strict=True))
        if empty := [name for name, part in parts.items() if not part]:
            raise UsageError(
                f"environment: {len(items)} tasks divided {self.split} leave nothing for "
                f"{' and '.join(empty)}",
                hint="Add tasks, or choose a more even `environment.split`.",
            )
        kept = {name: part[: self.limit or None] for name, part in parts.items()}
        return {"train": kept["train"], "selection": kept["selection"], "test": kept["test"]}

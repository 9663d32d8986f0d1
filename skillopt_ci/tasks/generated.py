"""Tasks without a fixed list: a function of the repository makes them, and a seed is a batch."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from skillopt_ci.config.config import GeneratedTasks, Train
from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks.disjoint import NamedSplits
from skillopt_ci.tasks.problems import Problem, refuse
from skillopt_ci.tasks.record import to_task
from skillopt_ci.tasks.scorers.python_function import load_function
from skillopt_ci.tasks.source import Record
from skillopt_ci.tasks.task import Task

Generate = Callable[[str, int, int], object]


def generate_splits(spec: GeneratedTasks, train: Train, root: Path) -> NamedSplits:
    """Make the three splits; an epoch's training batches stand one after another, by their seeds.

    Raises :class:`~skillopt_ci.errors.UsageError` for a function that cannot be found, and
    :class:`TaskFileError` for one that raises, is not deterministic or returns anything but tasks.
    """
    function = cast("Generate", load_function(spec.generator, root))
    make = _Maker(spec.generator, function, root)
    selection = make.tasks("selection", spec.seed, spec.selection)
    if selection != make.tasks("selection", spec.seed, spec.selection):
        raise TaskFileError(
            f"{spec.generator} returned different tasks when it was called twice with the same "
            "arguments",
            hint="Draw from random.Random(seed), not from a generator of the process.",
        )
    seeds = range(spec.seed + 1, spec.seed + train.train_size // train.batch_size + 1)
    batches = [make.tasks("train", seed, train.batch_size) for seed in seeds]
    test = make.tasks("test", spec.seed, spec.test) if spec.test else []
    return {
        "train": [task for batch in batches for task in batch],
        "selection": selection,
        **({"test": test} if test else {}),
    }


@dataclass(frozen=True, slots=True)
class _Maker:
    entry: str
    function: Generate
    root: Path

    def tasks(self, split: str, seed: int, count: int) -> list[Task]:
        """The tasks of one call."""
        call = f"{self.entry}({split!r}, {seed}, {count})"
        returned = self._returned(call, split, seed, count)
        if not isinstance(returned, list) or len(returned) != count:
            got = f"{len(returned)} of them" if isinstance(returned, list) else f"{returned!r:.60}"
            raise TaskFileError(f"{call} returned {got}, expected a list of {count} tasks")
        made = [self._task(value, f"{split}-{seed}-{n}") for n, value in enumerate(returned, 1)]
        wrong = [
            Problem(None, None, f"{call}, task {n}: {problem.message}")
            for n, result in enumerate(made, 1)
            if isinstance(result, list)
            for problem in result
        ]
        refuse(wrong)
        return [task for task in made if isinstance(task, Task)]

    def _returned(self, call: str, split: str, seed: int, count: int) -> object:
        try:
            return self.function(split, seed, count)
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = f" ({frames[-1].filename}:{frames[-1].lineno})"
            raise TaskFileError(f"{call} raised {type(error).__name__}: {error}{where}") from error

    def _task(self, value: object, name: str) -> Task | list[Problem]:
        if not isinstance(value, dict):
            return [Problem(None, None, "expected a dictionary with the keys of a task")]
        file = self.root / self.entry.rpartition(":")[0]
        # numbered by split and seed where the function gives no id, so that none is taken twice
        return to_task(Record({"id": name, **value}, file, 1, line_of=_first_line))


def _first_line(_key: str) -> int:
    return 1

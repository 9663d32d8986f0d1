"""Loads a run's tasks from files into three disjoint splits, or reports every problem."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

from skillopt_ci.config.config import RatioSplit, SplitDir, TasksSpec
from skillopt_ci.errors import TaskFileError, location
from skillopt_ci.tasks.files import READERS, TaskProblem, read_records, refuse
from skillopt_ci.tasks.records import to_task
from skillopt_ci.tasks.task import Splits, Task, content_key
from skillopt_ci.text import plural

Item = TypeVar("Item")
SplitName = Literal["train", "selection", "test"]
NamedSplits = Mapping[SplitName, Sequence[Task]]

SPLIT_NAMES: tuple[SplitName, ...] = ("train", "selection", "test")

#: What the subfolders of a split folder may be called, SkillOpt's names first.
_FOLDERS: Mapping[SplitName, tuple[str, ...]] = {
    "train": ("train",),
    "selection": ("val", "selection", "valid_seen"),
    "test": ("test", "valid_unseen"),
}


def load_splits(spec: TasksSpec, root: Path) -> Splits:
    if isinstance(spec, RatioSplit):
        splits: NamedSplits = _divided(spec, root / spec.path)
    else:
        if isinstance(spec, SplitDir):
            files = {name: _split_file(root / spec.split_dir, name) for name in SPLIT_NAMES}
        else:
            files = {name: root / file for name in SPLIT_NAMES if (file := getattr(spec, name))}
        if len(set(files.values())) < len(files):
            named = ", ".join(f"{name}: {file}" for name, file in files.items())
            raise TaskFileError(f"tasks: expected a different file for each split, found {named}")
        loaded = {name: load_tasks(file) for name, file in files.items()}
        refuse([problem for _, problems in loaded.values() for problem in problems])
        empty = [name for name, (tasks, _) in loaded.items() if not tasks]
        refuse([TaskProblem(files[name], None, f"the {name} split has no tasks") for name in empty])
        splits = {name: tasks for name, (tasks, _) in loaded.items()}
    refuse_clashes(splits)
    return Splits(*(tuple(splits.get(name, ())[: spec.limit or None]) for name in SPLIT_NAMES))


def read_entries(file: Path | str) -> tuple[Task, ...]:
    tasks, problems = load_tasks(Path(file))
    refuse(problems)
    return tasks


def load_tasks(file: Path) -> tuple[tuple[Task, ...], tuple[TaskProblem, ...]]:
    found = [[one] if isinstance(one, TaskProblem) else to_task(one) for one in read_records(file)]
    problems = chain.from_iterable(one for one in found if isinstance(one, list))
    return tuple(one for one in found if isinstance(one, Task)), tuple(problems)


def _split_file(split_dir: Path, name: SplitName) -> Path:
    folders = _FOLDERS[name]
    folder = next((split_dir / f for f in folders if (split_dir / f).is_dir()), None)
    if folder is None:
        raise TaskFileError(f"has no folder {' or '.join(folders)}", file=split_dir)
    # not hidden files, such as the `._items.json` that macOS puts into archives
    if not (files := sorted(folder.glob("[!.]*.json")) or sorted(folder.glob("[!.]*.csv"))):
        raise TaskFileError("holds no .json or .csv file", file=folder)
    return files[0]


def _divided(spec: RatioSplit, file: Path) -> NamedSplits:
    if file.is_dir():
        files = sorted(path for path in file.glob("[!.]*") if path.suffix.lower() in READERS)
        if len(files) != 1:
            raise TaskFileError(f"expected exactly one task file, found {len(files)}", file=file)
        (file,) = files
    try:
        return divide(read_entries(file), spec.split, spec.seed)
    except ValueError as error:
        raise TaskFileError(
            str(error), file=file, hint="Add tasks, or choose a more even `tasks.split`."
        ) from error


def divide(items: Sequence[Item], ratio: str, seed: int) -> dict[SplitName, tuple[Item, ...]]:
    """Shuffle ``items`` with ``seed`` and split them by ``ratio`` (``a:b:c``), no split empty."""
    shuffled = list(items)
    Random(seed).shuffle(shuffled)
    rest = iter(shuffled)
    counts = split_counts(len(shuffled), [int(part) for part in ratio.split(":")])
    splits = {name: tuple(islice(rest, n)) for name, n in zip(SPLIT_NAMES, counts, strict=True)}
    if empty := " and ".join(name for name, part in splits.items() if not part):
        few = plural(len(items), "task")
        raise ValueError(f"{few}, divided {ratio}: nothing is left for {empty}")
    return splits


def split_counts(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Divide ``total`` by largest remainder; ties go to the larger weight, then the first."""
    whole = sum(weights)
    counts = [total * weight // whole for weight in weights]
    by_claim = sorted(
        range(len(weights)), key=lambda i: (-(total * weights[i] % whole), -weights[i], i)
    )
    for i in by_claim[: total - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


def refuse_clashes(splits: NamedSplits) -> None:
    """Raise TaskFileError if two tasks have the same id, or two splits the same question."""
    same_id, same_question = list[TaskProblem](), list[TaskProblem]()
    with_id, with_question = dict[str, Task](), dict[str, tuple[str, Task]]()
    for name, task in ((name, task) for name, tasks in splits.items() for task in tasks):
        first = with_id.setdefault(task.id, task)
        if first is not task:
            text = f"id {task.id!r} is already used at {location(first.file, first.line)}"
            same_id.append(TaskProblem(task.file, task.line, text))
        other, first = with_question.setdefault(content_key(task), (name, task))
        if other != name:
            text = (
                f"task {task.id!r} of the {name} split asks the same as task {first.id!r} of "
                f"the {other} split at {location(first.file, first.line)}"
            )
            same_question.append(TaskProblem(task.file, task.line, text))
    refuse([*same_id, *same_question])

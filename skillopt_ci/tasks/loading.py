"""Loading the tasks of a run: files to three disjoint splits, or every reason why not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from skillopt_ci.config.config import GeneratedTasks, GivenSplits, RatioSplit, SplitDir, Train
from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks.disjoint import NamedSplits, overlaps, repeated_ids
from skillopt_ci.tasks.generated import generate_splits
from skillopt_ci.tasks.json_source import read_json, read_jsonl
from skillopt_ci.tasks.problems import Problem, refuse
from skillopt_ci.tasks.ratio import divide
from skillopt_ci.tasks.record import to_task
from skillopt_ci.tasks.source import Record, SourceText, read_source
from skillopt_ci.tasks.splits import ALIASES, SPLIT_NAMES
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.tasks.yaml_source import read_yaml

TasksSpec = GivenSplits | RatioSplit | SplitDir | GeneratedTasks
Reader = Callable[[SourceText], Iterator[Record | Problem]]

_READERS: Mapping[str, Reader] = MappingProxyType(
    {
        ".jsonl": read_jsonl,
        ".ndjson": read_jsonl,
        ".json": read_json,
        ".yaml": read_yaml,
        ".yml": read_yaml,
    }
)


def load_splits(spec: TasksSpec, root: Path, train: Train | None = None) -> Splits:
    """Read the tasks that ``spec`` names, relative to ``root``.

    Generated tasks are made for the batches of ``train``.

    Raises :class:`TaskFileError` with up to ten problems at once: unreadable or malformed files,
    keys that no task has, ids used twice, splits that are empty or ask the same. Whether the
    scorers can work is asked by :func:`~skillopt_ci.tasks.scorers.check.check_scorers`.
    """
    match spec:
        case GivenSplits():
            files = {name: getattr(spec, name) for name in SPLIT_NAMES}
            splits = _read_splits({name: root / file for name, file in files.items() if file})
        case RatioSplit():
            splits = _divided(spec, root / spec.path)
        case SplitDir():
            splits = _read_splits(
                {name: _split_file(root / spec.split_dir, name) for name in SPLIT_NAMES}
            )
        case GeneratedTasks():
            splits = generate_splits(spec, train or Train(), root)
    refuse([*repeated_ids(splits), *overlaps(splits)])
    limit = None if isinstance(spec, GeneratedTasks) else spec.limit or None
    kept = {name: tuple(tasks[:limit]) for name, tasks in splits.items()}
    return Splits(kept["train"], kept["selection"], kept.get("test", ()))


def load_tasks(file: Path) -> tuple[tuple[Task, ...], tuple[Problem, ...]]:
    """The tasks of one file in its order, and the problems of those that could not be read.

    Raises :class:`TaskFileError` when the file as a whole is unreadable.
    """
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise TaskFileError(f"expected a file ending in {', '.join(_READERS)}", file=file)
    results = [
        [found] if isinstance(found, Problem) else to_task(found)
        for found in reader(read_source(file))
    ]
    tasks = tuple(result for result in results if isinstance(result, Task))
    problems = chain.from_iterable(result for result in results if isinstance(result, list))
    return tasks, tuple(problems)


def _read_splits(files: Mapping[str, Path]) -> NamedSplits:
    loaded = {name: load_tasks(file) for name, file in files.items()}
    refuse([problem for _, problems in loaded.values() for problem in problems])
    empty = [name for name, (tasks, _) in loaded.items() if not tasks]
    refuse([Problem(files[name], None, f"the {name} split has no tasks") for name in empty])
    return {name: tasks for name, (tasks, _) in loaded.items()}


def _divided(spec: RatioSplit, path: Path) -> NamedSplits:
    file = _only_task_file(path) if path.is_dir() else path
    tasks, problems = load_tasks(file)
    refuse(problems)
    parts = divide(tasks, spec.split, spec.seed)
    splits: dict[str, Sequence[Task]] = dict(zip(SPLIT_NAMES, parts, strict=True))
    if empty := [name for name, part in splits.items() if not part]:
        raise TaskFileError(
            f"{len(tasks)} tasks divided {spec.split} leave nothing for {' and '.join(empty)}",
            file=file,
            hint="Add tasks, or choose a more even `tasks.split`.",
        )
    return splits


def _only_task_file(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _READERS)
    if len(files) != 1:
        raise TaskFileError(f"expected exactly one task file, found {len(files)}", file=folder)
    return files[0]


def _split_file(split_dir: Path, name: str) -> Path:
    folders = [alias for alias, split in ALIASES.items() if split == name]
    folder = next((split_dir / f for f in folders if (split_dir / f).is_dir()), None)
    if folder is None:
        raise TaskFileError(f"has no folder {' or '.join(folders)}", file=split_dir)
    files = sorted(folder.glob("*.json"))
    if not files:
        raise TaskFileError("holds no .json file", file=folder)
    return files[0]

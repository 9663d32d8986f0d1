"""The bundled example: a skill, its tasks and a configuration that trains it offline."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from skillopt_ci.demo.models import LedgerTask, generate_notes
from skillopt_ci.errors import UsageError

# The example's task files, made from a seed.

SEED = 2026
SIZES = {"train": 48, "selection": 40, "test": 60}


def task_files() -> Mapping[str, str]:
    """Return the text of each task file by its path inside the example."""
    tasks = iter(generate_notes(SEED, sum(SIZES.values())))
    return {
        f"tasks/{split}.jsonl": _lines([next(tasks) for _ in range(size)])
        for split, size in SIZES.items()
    }


def _lines(tasks: Sequence[LedgerTask]) -> str:
    return "".join(json.dumps(_record(task), ensure_ascii=False) + "\n" for task in tasks)


def _record(task: LedgerTask) -> dict[str, str]:
    return {
        "id": task.id,
        "task_type": task.task_type,
        "prompt": task.prompt,
        "references": task.reference,
    }


EXAMPLE_FILES = (
    "skillopt.yaml",
    "skills/ledger/SKILL.md",
    "tasks/train.jsonl",
    "tasks/selection.jsonl",
    "tasks/test.jsonl",
)


def write_example(target: Path) -> None:
    """Write the example into the folder ``target``, which is made if needed.

    Raises ``UsageError``, before anything is written, if one of its files exists already.
    """
    present = [name for name in EXAMPLE_FILES if (target / name).exists()]
    if present:
        raise UsageError(
            f"{target} already has {', '.join(present)}: nothing was written.",
            hint="Choose an empty folder for the example.",
        )
    source = resources.files(__package__) / "files"
    for name in EXAMPLE_FILES:
        _write(target / name, source.joinpath(name).read_bytes())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)


if __name__ == "__main__":
    for name, text in task_files().items():
        (Path(__file__).parent / "files" / name).write_text(text, encoding="utf-8")

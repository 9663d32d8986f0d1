"""The example's task files, made from a seed.

``python -m skillopt_ci.quickstart.tasks`` writes them anew into the package.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_ci.model.simulated.world import LedgerTask, generate_notes

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


if __name__ == "__main__":
    for name, text in task_files().items():
        (Path(__file__).parent / "files" / name).write_text(text, encoding="utf-8")

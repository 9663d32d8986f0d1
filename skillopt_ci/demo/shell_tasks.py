"""The task files of the example in ``examples/shell``, made from a seed.

``python -m skillopt_ci.demo.shell_tasks examples/shell`` writes them anew.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_ci.demo.models import ShellTask, generate_orders

SEED = 2026
SIZES = {"train": 24, "selection": 16, "test": 24}


def task_files() -> Mapping[str, str]:
    """Return the text of each task file by its path inside the example."""
    tasks = iter(generate_orders(SEED, sum(SIZES.values())))
    return {
        f"tasks/{split}.jsonl": lines([next(tasks) for _ in range(size)])
        for split, size in SIZES.items()
    }


def lines(tasks: Sequence[ShellTask]) -> str:
    """Return ``tasks`` as the lines of a task file."""
    return "".join(json.dumps(_record(task), ensure_ascii=False) + "\n" for task in tasks)


def _record(task: ShellTask) -> dict[str, object]:
    scorer = {
        "type": "computer",
        "command": ["sh", "check.sh", *task.checks],
        "folder": "grading",
        "score": "last_line",
    }
    return {
        "id": task.id,
        "task_type": task.task_type,
        "prompt": task.prompt,
        "computer": {"files": {task.source: task.content}},
        "scorer": scorer,
    }


if __name__ == "__main__":
    for name, text in task_files().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")

"""The tasks of the bundled example and of ``examples/shell``, as their files have them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """One note with the one line that the office accepts for it."""

    id: str
    task_type: str
    prompt: str
    reference: str


@dataclass(frozen=True, slots=True)
class ShellTask:
    """One order; ``source`` and ``content`` are its input file, ``checks`` what is looked at."""

    id: str
    prompt: str
    source: str
    content: str
    checks: tuple[str, ...]


def ledger_tasks() -> tuple[LedgerTask, ...]:
    return tuple(
        LedgerTask(one["id"], one["task_type"], one["prompt"], one["references"])
        for one in _lines("skillopt_ci/demo/files")
    )


def shell_tasks() -> tuple[ShellTask, ...]:
    found = []
    for one in _lines("examples/shell"):
        ((source, content),) = one["computer"]["files"].items()
        checks = tuple(one["scorer"]["command"][2:])
        found.append(ShellTask(one["id"], one["prompt"], source, content, checks))
    return tuple(found)


def _lines(folder: str) -> list[dict[str, Any]]:
    files = [ROOT / folder / "tasks" / f"{split}.jsonl" for split in ("train", "selection", "test")]
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]

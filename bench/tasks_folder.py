"""A world's tasks as files: what the systems are given."""

import json
from pathlib import Path

from bench.world.catalogue import INITIAL_SKILL
from bench.world.world import World

#: How SkillOpt calls the splits.
_FOLDERS = {"train": "train", "selection": "val", "test": "test"}


def write_tasks(world: World, folder: Path) -> Path:
    """Write SkillOpt's split directory and the initial skill into ``folder``."""
    for split, name in _FOLDERS.items():
        items = [
            {"id": task.id, "task_type": task.type, "question": task.prompt, "answer": task.answer}
            for task in world.splits[split]
        ]
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "items.json").write_text(json.dumps(items))
    (folder / "initial.md").write_text(INITIAL_SKILL)
    return folder


def own_lines(world: World, split: str) -> str:
    """The tasks of ``split`` in skillopt-ci's own form, one per line."""
    records = [
        {
            "id": task.id,
            "task_type": task.type,
            "prompt": task.prompt,
            "references": task.answer,
        }
        for task in world.splits[split]
    ]
    return "".join(json.dumps(record) + "\n" for record in records)

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task

Write = Callable[[str, str], Path]
MakeTask = Callable[..., Task]
WriteSplits = Callable[[Mapping[str, list[dict[str, object]]]], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write_file


@pytest.fixture
def write_splits(write: Write) -> WriteSplits:
    """Writes `<split>.jsonl` for each split."""

    def write_all(splits: Mapping[str, list[dict[str, object]]]) -> None:
        for name, records in splits.items():
            write(f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))

    return write_all


@pytest.fixture
def make_task() -> MakeTask:
    def make(*references: str, prompt: str = "What is it?", **fields: object) -> Task:
        values: dict[str, object] = {"id": "t", "messages": (Message("user", prompt),), **fields}
        return Task(references=references, **values)  # type: ignore[arg-type]

    return make

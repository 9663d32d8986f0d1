"""Fixtures for tests of tasks and scorers; their conftests import them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task

Write = Callable[[str, str], Path]
MakeTask = Callable[..., Task]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write_file


@pytest.fixture
def make_task() -> MakeTask:
    def make(*references: str, prompt: str = "What is it?", **fields: object) -> Task:
        values: dict[str, object] = {"id": "t", "messages": (Message("user", prompt),), **fields}
        return Task(references=references, **values)  # type: ignore[arg-type]

    return make

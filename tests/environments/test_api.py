from __future__ import annotations

from pathlib import Path

import pytest

from skillopt_ci.environments.api import divided, read_entries, task_of
from skillopt_ci.errors import TaskFileError, UsageError


def test_an_entry_has_the_keys_of_a_task_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("attached", encoding="utf-8")
    found = task_of({"id": 7, "prompt": "p", "references": "r", "files": ["a.txt"]}, tmp_path)
    assert (found.id, found.references, found.files[0].content) == ("7", ("r",), "attached")


def test_a_wrong_entry_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match="did you mean 'references'"):
        task_of({"id": "1", "prompt": "p", "answer": "r"}, tmp_path)


def test_a_file_is_divided_the_same_way_every_time(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("".join(f'{{"id": "{n}", "prompt": "p{n}"}}\n' for n in range(8)))
    tasks = read_entries(file)
    parts = divided(tasks, "2:1:1")
    assert [len(parts[name]) for name in ("train", "selection", "test")] == [4, 2, 2]
    assert divided(tasks, "2:1:1") == parts
    assert divided(tasks, "2:1:1", seed=1) != parts
    with pytest.raises(UsageError, match="leave nothing for"):
        divided(tasks[:2], "1:1:1")


def test_a_file_with_a_wrong_line_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"id": "1"}\n')
    with pytest.raises(TaskFileError, match=r"t\.jsonl:1"):
        read_entries(file)

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks import records
from skillopt_ci.tasks.loading import load_tasks
from skillopt_ci.tasks.records import media_type, task_images
from skillopt_ci.tasks.task import content_key, task_sha256

PNG = b"\x89PNG\r\n\x1a\n rest"
KINDS = {
    "a.png": (PNG, "image/png"),
    "a.jpg": (b"\xff\xd8\xff\xe0 rest", "image/jpeg"),
    "a.gif": (b"GIF89a rest", "image/gif"),
    "a.webp": (b"RIFF\x00\x00\x00\x00WEBP rest", "image/webp"),
}


def put(folder: Path, name: str, content: bytes = PNG) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def record(folder: Path, text: str) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text(text + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    content, kind = KINDS[name]
    put(tmp_path, "misnamed.png", content)
    (found,) = task_images(["misnamed.png"], tmp_path)
    assert (found.name, found.image.media_type) == ("misnamed.png", kind)
    assert b64decode(found.image.data) == content
    assert len(found.sha256) == 64


@given(st.binary(max_size=40))
def test_any_bytes_are_a_known_kind_or_none(content: bytes) -> None:
    assert media_type(content) in {None, *(kind for _, kind in KINDS.values())}


@pytest.mark.parametrize("content", [b"", b"<svg/>", b"%PDF-1.7", b"RIFF0000WAVE"])
def test_what_is_no_picture_is_refused(tmp_path: Path, content: bytes) -> None:
    put(tmp_path, "a.png", content)
    with pytest.raises(TaskFileError, match="is no PNG, JPEG, WebP or GIF picture"):
        task_images(["a.png"], tmp_path)


def test_what_is_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.png")
    monkeypatch.setattr(records, "MOST_BYTES", 5)
    with pytest.raises(TaskFileError, match="bytes are more than 5"):
        task_images(["a.png"], tmp_path)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["../a.png"], "relative path"),
        (["a.png", "./a.png"], "stands twice"),
        ([f"{number}.png" for number in range(21)], "21 pictures are more than the 20"),
    ],
)
def test_names_are_held_to_the_rules_of_files(tmp_path: Path, names: list[str], words: str) -> None:
    put(tmp_path, "a.png")
    with pytest.raises(ValueError, match=words):
        task_images(names, tmp_path)


def test_a_missing_picture_is_told(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match="cannot be read"):
        task_images(["nope.png"], tmp_path)


def test_a_task_names_them_among_its_files_or_apart(tmp_path: Path) -> None:
    put(tmp_path, "a.png")
    put(tmp_path, "sub/b.JPG", KINDS["a.jpg"][0])
    (tmp_path / "notes.txt").write_text("text", encoding="utf-8")
    file = record(
        tmp_path,
        '{"id": "t", "prompt": "p", "files": ["notes.txt", "a.png"], "images": ["sub/b.JPG"]}',
    )
    (task,), _ = load_tasks(file)
    assert [one.name for one in task.files] == ["notes.txt"]
    assert [one.name for one in task.images] == ["a.png", "sub/b.JPG"]


def test_an_item_of_skillopt_s_shows_its_picture(tmp_path: Path) -> None:
    put(tmp_path, "scan.png")
    file = record(tmp_path, '{"id": "t", "question": "q", "answer": "a", "image_path": "scan.png"}')
    (task,), _ = load_tasks(file)
    assert [one.name for one in task.images] == ["scan.png"]
    assert "image_path" not in task.metadata


def test_a_bad_picture_is_told_with_its_place(tmp_path: Path) -> None:
    file = record(tmp_path, '{"id": "t", "prompt": "p", "images": ["gone.png"]}')
    tasks, (problem,) = load_tasks(file)
    assert (tasks, problem.line) == ((), 1)
    assert problem.message.startswith("images: ")
    assert "gone.png" in problem.message


def test_another_picture_makes_another_task(tmp_path: Path) -> None:
    file = record(tmp_path, '{"id": "t", "prompt": "p", "images": ["a.png"]}')
    put(tmp_path, "a.png")
    (before,), _ = load_tasks(file)
    put(tmp_path, "a.png", PNG + b"!")
    (after,), _ = load_tasks(file)
    (bare,), _ = load_tasks(record(tmp_path, '{"id": "t", "prompt": "p"}'))
    assert len({task_sha256(task) for task in (before, after, bare)}) == 3
    assert len({content_key(task) for task in (before, after, bare)}) == 3

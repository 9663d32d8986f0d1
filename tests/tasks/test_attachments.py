from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks.records import task_files
from skillopt_ci.tasks.task import TaskFile

Write = Callable[[str, str], Path]


def test_listed_files_are_read_from_the_folder(tmp_path: Path, write: Write):
    write("sub/a.txt", "ä")
    assert task_files(["./sub//a.txt"], tmp_path) == (TaskFile("sub/a.txt", "ä"),)


def test_mapped_files_bring_their_text(tmp_path: Path):
    assert task_files({"a/b": "text"}, tmp_path) == (TaskFile("a/b", "text"),)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "", ".", "a\\b", "a\nb"])
def test_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match="relative path"):
        task_files({name: "text"}, tmp_path)


def test_link_out_of_the_folder_is_refused(tmp_path: Path, write: Write):
    write("secret", "x")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="leads out"):
        task_files(["link"], tmp_path / "tasks")


def test_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(TaskFileError, match="cannot be read"):
        task_files(["nope"], tmp_path)


@pytest.mark.parametrize(
    ("names", "message"), [(("a", "./a"), "stands twice"), (("a", "a/b"), "the folder of 'a/b'")]
)
def test_names_that_exclude_each_other_are_refused(
    tmp_path: Path, names: tuple[str, str], message: str
):
    with pytest.raises(ValueError, match=message):
        task_files(dict.fromkeys(names, ""), tmp_path)

"""Many files by one process."""

import subprocess
from pathlib import Path

from skillopt_ci.git.objects import read_texts
from skillopt_ci.git.process import Git


def test_each_file_comes_in_its_place(tmp_path: Path) -> None:
    git = Git(tmp_path)
    git.run("init", "--quiet")
    files = {"a.md": b"one\ntwo\n", "b c/d.md": "é".encode(), "e.md": b"", "bad.md": b"\xff"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    tree = git.text("write-tree")
    asked = ["a.md", "missing.md", "b c/d.md", "b c", "bad.md", "e.md", "x\ny", "a.md"]
    assert read_texts(git, [(tree, name) for name in asked]) == (
        "one\ntwo\n",
        None,
        "é",
        None,
        None,
        "",
        None,
        "one\ntwo\n",
    )
    assert read_texts(git, []) == ()

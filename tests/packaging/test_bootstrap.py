import hashlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[dependency-groups]\ndev = ["a>=1", "b"]\n', "utf-8")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    return tmp_path


def stamp(bootstrap: ModuleType, checkout: Path, *, dev: bool) -> Path:
    digest = hashlib.sha256((checkout / "pyproject.toml").read_bytes()).hexdigest()
    file = checkout / ".venv" / ".bootstrap"
    bootstrap.write_stamp(file, bootstrap.Stamp(str(checkout), digest, dev))
    return file


@pytest.mark.parametrize(("there", "wanted"), [(True, True), (True, False), (False, False)])
def test_an_environment_that_is_as_it_should_be_is_left_alone(
    there: bool, wanted: bool, bootstrap: ModuleType, checkout: Path
) -> None:
    file = stamp(bootstrap, checkout, dev=there)
    before = file.stat().st_mtime_ns
    bootstrap.bootstrap(checkout, wanted)
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("change", ["dependencies", "dev group"])
def test_whatever_is_out_of_date_loses_its_stamp_before_it_is_renewed(
    change: str, bootstrap: ModuleType, checkout: Path
) -> None:
    file = stamp(bootstrap, checkout, dev=False)
    if change == "dependencies":
        (checkout / "pyproject.toml").write_text("not a project", "utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.bootstrap(checkout, change == "dev group")
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "half", "a\nb\nc\nd\n"])
def test_a_stamp_that_is_not_whole_counts_for_nothing(
    text: str, bootstrap: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "stamp").write_text(text, "utf-8")
    assert bootstrap.read_stamp(tmp_path / "stamp") is None


def test_a_stamp_is_read_as_it_was_written(bootstrap: ModuleType, tmp_path: Path) -> None:
    written = bootstrap.Stamp("/somewhere else", "abc", True)
    bootstrap.write_stamp(tmp_path / "stamp", written)
    assert bootstrap.read_stamp(tmp_path / "stamp") == written


def test_an_interpreter_that_does_not_run_is_not_usable(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n", "utf-8")
    shim.chmod(0o755)
    assert not bootstrap.is_usable(shim)
    assert not bootstrap.is_usable(tmp_path / "missing")
    assert bootstrap.is_usable(Path(sys.executable))


def test_the_dev_group_is_read_from_pyproject(bootstrap: ModuleType, checkout: Path) -> None:
    wanted = bootstrap.Stamp(str(checkout), "", True)
    assert bootstrap.group(Path(sys.executable), checkout, wanted) == ["a>=1", "b"]
    assert bootstrap.group(Path(sys.executable), checkout, wanted._replace(dev=False)) == []

import hashlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

# stands for the environment's interpreter: notes what it is asked and installs nothing
INTERPRETER = """#!/bin/sh
echo "$*" >> "$0.calls"
case "$*" in *"pip install"*) [ ! -e "$0.offline" ];; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[dependency-groups]\ndev = ["a>=1", "b"]\n', "utf-8")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").touch()
    (tmp_path / ".venv/bin/python").write_text(INTERPRETER, "utf-8")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    return tmp_path


def installs(checkout: Path) -> int:
    return (checkout / ".venv/bin/python.calls").read_text("utf-8").count("pip install")


def stamp(bootstrap: ModuleType, checkout: Path, *, dev: bool) -> Path:
    digest = hashlib.sha256((checkout / "pyproject.toml").read_bytes()).hexdigest()
    file = checkout / ".venv" / ".bootstrap"
    bootstrap.write_stamp(file, bootstrap.Stamp(str(checkout), digest, dev))
    return file


@pytest.mark.parametrize(("there", "wanted"), [(True, True), (True, False), (False, False)])
def test_an_environment_that_is_as_it_should_be_is_left_alone(there, wanted, bootstrap, checkout):
    stamp(bootstrap, checkout, dev=there)
    bootstrap.bootstrap(checkout, wanted)
    assert installs(checkout) == 0


@pytest.mark.parametrize("change", ["dependencies", "dev group"])
def test_what_is_out_of_date_is_renewed_once(change, bootstrap, checkout):
    stamp(bootstrap, checkout, dev=False)
    if change == "dependencies":
        (checkout / "pyproject.toml").write_text("# another", "utf-8")
    for _ in range(2):
        bootstrap.bootstrap(checkout, change == "dev group")
    assert installs(checkout) == 1


def test_a_failed_renewal_leaves_no_stamp(bootstrap, checkout):
    file = stamp(bootstrap, checkout, dev=False)
    (checkout / ".venv/bin/python.offline").touch()
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.bootstrap(checkout, True)
    assert not file.exists()


def test_the_dev_group_stays_when_something_else_asks_without_it(bootstrap, checkout):
    file = stamp(bootstrap, checkout, dev=True)
    (checkout / "pyproject.toml").write_text("# another", "utf-8")
    bootstrap.bootstrap(checkout, False)
    assert bootstrap.read_stamp(file).dev


@pytest.mark.parametrize("text", ["", "half", "a\nb\nc\nd\n"])
def test_a_stamp_that_is_not_whole_counts_for_nothing(text, bootstrap, tmp_path):
    (tmp_path / "stamp").write_text(text, "utf-8")
    assert bootstrap.read_stamp(tmp_path / "stamp") is None


def test_a_stamp_is_read_as_it_was_written(bootstrap, tmp_path):
    written = bootstrap.Stamp("/somewhere else", "abc", True)
    bootstrap.write_stamp(tmp_path / "stamp", written)
    assert bootstrap.read_stamp(tmp_path / "stamp") == written


def test_an_interpreter_that_does_not_run_is_not_usable(bootstrap, tmp_path):
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n", "utf-8")
    shim.chmod(0o755)
    assert not bootstrap.is_usable(shim)
    assert not bootstrap.is_usable(tmp_path / "missing")
    assert bootstrap.is_usable(Path(sys.executable))


def test_the_dev_group_is_read_from_pyproject(bootstrap, checkout):
    wanted = bootstrap.Stamp(str(checkout), "", True)
    assert bootstrap.group(Path(sys.executable), checkout, wanted) == ["a>=1", "b"]
    assert bootstrap.group(Path(sys.executable), checkout, wanted._replace(dev=False)) == []


def test_pip_is_kept_from_installing_outside_of_an_environment(bootstrap, capfd):
    bootstrap.run(sys.executable, "-c", "import os; print(os.environ['PIP_REQUIRE_VIRTUALENV'])")
    assert capfd.readouterr().out == "1\n"

"""Environments by name: built in, from installed packages, from files; and mistakes in naming."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from skillopt_ci.config.config import EnvironmentConfig
from skillopt_ci.environments.api import split_tasks
from skillopt_ci.environments.find import open_environment
from skillopt_ci.errors import UsageError

CLASS = '''
from skillopt_ci.environments.api import Environment, Message, Task

class Riddles(Environment):
    """Two riddles a split."""

    def tasks(self, split):
        n = int(self.options.get("count", 2))
        return [Task(f"{split}-{i}", (Message("user", f"{split} riddle {i}"),)) for i in range(n)]

class Half(Environment):
    pass

class Broken(Environment):
    def __init__(self, options, root):
        raise KeyError("nothing")

    def tasks(self, split):
        return []

class Other:
    pass
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "riddles.py").write_text(CLASS, encoding="utf-8")
    return tmp_path


def test_a_class_in_a_file_with_options(opened, root):
    found = opened({"type": "riddles.py:Riddles", "count": 3})
    assert [task.id for task in split_tasks(found, "test")] == ["test-0", "test-1", "test-2"]
    assert found.root == root
    assert not found.grades
    assert found.identity() == {"type": "Riddles", "options": {"count": 3}}


def test_a_bare_name_has_no_options(root):
    assert len(split_tasks(open_environment("riddles.py:Riddles", root, {}), "train")) == 2


def test_a_class_in_a_module_of_the_repository(root, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "riddle_module", raising=False)
    (root / "riddle_module.py").write_text(CLASS, encoding="utf-8")
    assert split_tasks(open_environment("riddle_module:Riddles", root, {}), "train")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("inspct", "there is no environment 'inspct'; did you mean 'inspect'?"),
        ("gymnastics!", "known are: inspect, promptfoo, skillopt"),
        ("riddles.py:Ridles", "has no class 'Ridles'; did you mean 'Riddles'?"),
        ("riddles.py:Other", "is no subclass of skillopt_ci.rollout.environment.Environment"),
        ("riddles.py:Half", "riddles.py:Half does not define tasks"),
        ("riddles.py:Broken", "cannot be built: KeyError"),
        ("nowhere.py:Riddles", "environment: nowhere.py cannot be imported: FileNotFoundError"),
        ("no_such_module:Riddles", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_mistakes_are_told_for_people(root, name, said):
    with pytest.raises(UsageError) as error:
        open_environment(EnvironmentConfig(type=name), root, {})
    assert said in str(error.value)


PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "riddle-environment"
version = "1.0"
[project.entry-points."skillopt_ci.environments"]
riddles = "riddle_environment:Riddles"
[tool.hatch.build.targets.wheel]
include = ["riddle_environment.py"]
"""

USE = """
from pathlib import Path
from skillopt_ci.environments.find import open_environment
from skillopt_ci.config.config import EnvironmentConfig
found = open_environment(EnvironmentConfig(type="riddles", count=1), Path(), {})
print([task.id for task in found.tasks("train")])
"""


@pytest.mark.integration
def test_an_installed_package_offers_an_environment_by_name(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "riddle_environment.py").write_text(CLASS, encoding="utf-8")
    # a venv that sees this one's packages, so that nothing is downloaded
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    (site,) = place.glob("lib/python*/site-packages")
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
    python = place / "bin" / "python"
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(package)]
    subprocess.run(pip, check=True, capture_output=True)
    done = subprocess.run(
        [python, "-c", USE], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "['train-0']\n"

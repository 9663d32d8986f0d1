"""What ``make stats`` counts, in a small package and in ours."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILES = {
    "__init__.py": "",
    "errors.py": '"""Errors."""\n\n\nclass Stop(Exception):\n    """Stop."""\n',
    "training/__init__.py": "",
    "training/step.py": """\
from typing import TYPE_CHECKING

from skillopt_ci.errors import Stop
from skillopt_ci.report.text import words
from skillopt_ci.training import plan

if TYPE_CHECKING:
    from skillopt_ci.cli import main

def step():
    if plan.size():
        raise Stop(words())
    return _once() + _twice() + _twice()

def _once():
    return 1

def _twice():
    return 2
""",
    "training/plan.py": """\
def size():
    from skillopt_ci.training.step import step
    import skillopt_ci.integrations.ray
    return step
""",
    "report/__init__.py": "",
    "report/text.py": "def words():\n    return ''\n",
    "report/words.md": "one\ntwo\n",
    "cli/__init__.py": "",
    "cli/main.py": """\
from skillopt_ci.action import run
from skillopt_ci.training.step import step
""",
    "action/__init__.py": "",
    "action/run.py": "",
    "integrations/__init__.py": "",
    "integrations/ray.py": "",
    "model/__init__.py": "",
    "model/client.py": """\
class ChatClient(Protocol):
    async def complete(self, request): ...

class Server:
    async def complete(self, request):
        return await self.sdk.create(request)

class Cached:
    async def complete(self, request):
        return self.kept or await self.inner.complete(request)
""",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "skillopt_ci" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "tests" / "support").mkdir(parents=True)
    (tmp_path / "tests" / "test_it.py").write_text("def test_it():\n    assert True\n")
    (tmp_path / "tests" / "support" / "help.py").write_text("x = 1\n")
    return tmp_path


@pytest.fixture
def found(stats: ModuleType, checkout: Path) -> dict[str, Any]:
    figures: dict[str, Any] = stats.measure(checkout)
    return figures


def test_measure_sizes(found):
    package, folders = found["package"], found["folders"]
    assert package["files"] == len([name for name in FILES if name.endswith(".py")])
    assert package["training_files"] == folders["training/"]["files"] == 3
    assert folders["training/"]["largest"] == ["skillopt_ci.training.step", 19]
    assert folders["."]["files"] == 2
    assert sum(folder["lines"] for folder in folders.values()) == package["lines"]
    assert found["package_data"] == {"lines": 2, "by_kind": {"md": 2}}
    assert found["beside"]["tests/support"]["lines"] == 1
    assert found["beside"]["other tests"]["lines"] == 2
    # statements at any depth: a docstring, a class, the class's docstring
    assert found["folders"]["."]["statements"] == 3
    # a def and three statements in it; 5 imports, 2 ifs, a raise, 3 defs, 3 returns
    assert found["folders"]["training/"]["statements"] == 4 + 14
    assert package["functions"] == 8
    assert (package["private_functions"], package["private_functions_used_once"]) == (2, 1)
    # plan by step; step is imported by plan and by main, text and client from elsewhere
    assert (package["imported_by_one"], package["imported_by_one_lines"]) == (1, 4)


def test_measure_client_layers(found):
    assert found["layers_passing_on"] == ["skillopt_ci.model.client.Cached"]
    assert found["layers_answering"] == ["skillopt_ci.model.client.Server"]


def test_measure_forbidden_imports(found):
    assert found["forbidden_imports"] == {
        "training → report": ["skillopt_ci.training.step imports skillopt_ci.report.text"],
        "training → integrations": [
            "skillopt_ci.training.plan imports skillopt_ci.integrations.ray"
        ],
        "cli → action": ["skillopt_ci.cli.main imports skillopt_ci.action.run"],
        "action → cli": [],
    }


def test_measure_circles_leave_out_what_only_type_checkers_import(found):
    assert found["circles"] == [["skillopt_ci.training.plan", "skillopt_ci.training.step"]]
    assert found["circles_at_load"] == []


def test_main_prints_the_figures_as_a_table_or_as_json(root, checkout, found):
    command = [sys.executable, root / "scripts" / "stats.py", checkout]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    told = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout

    assert json.loads(told) == found
    assert "  training/             3       23          18  skillopt_ci.training.step (19)" in text
    assert "skillopt_ci.training.plan ↔ skillopt_ci.training.step" in text


def test_measure_finds_our_own_package(stats, root):
    modules = stats.read(root / "skillopt_ci", "skillopt_ci")

    assert stats.size(modules.values())["files"] == len([*(root / "skillopt_ci").rglob("*.py")])
    assert stats.bonds(modules)["layers_answering"]


# Which faults ``scripts/mutants.py`` puts into code, and where.

SOURCE = """\
def f(a: int = 1) -> "int":
    é = "ö" if not a else a + 2
    if é is None or a < 3:
        return "x" + é
    return None

FLAG: bool = True
TEXT = f"{FLAG and 1}"
"""


def test_mutants_of_change_one_expression(mutants, tmp_path, monkeypatch):
    file = tmp_path / "code.py"
    file.write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)

    found = list(mutants.mutants_of(file))

    assert {(one.line, one.before, one.after) for one in found} == {
        (1, "1", "2"),
        (2, "not a", "(a)"),
        (2, "a + 2", "(a - 2)"),
        (2, "2", "3"),
        (3, "é is None or a < 3", "(é is None and a < 3)"),
        (3, "é is None", "(é is not None)"),
        (3, "a < 3", "(a <= 3)"),
        (3, "3", "4"),
        (4, '"x" + é', "None"),
        (7, "True", "False"),
    }
    content = file.read_bytes()
    for one in found:
        ast.parse(content[: one.start] + one.after.encode() + content[one.end :])


def test_key_of_is_the_name_in_the_junit_report(mutants):
    key = mutants.key_of("tests/cli/test_init.py::TestInit::test_it[a::b/c.py]")

    assert key == "tests.cli.test_init.TestInit.test_it[a::b/c.py]"

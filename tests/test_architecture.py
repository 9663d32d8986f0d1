"""The floors of docs/architecture.md, held by the imports that the package really has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def measured() -> Any:
    command = [sys.executable, ROOT / "scripts" / "stats.py", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)


@pytest.mark.parametrize("bond", ["training → report", "training → integrations", "cli → action"])
def test_no_import_points_up(measured, bond):
    assert measured["forbidden_imports"][bond] == []


def test_no_modules_import_each_other(measured):
    assert measured["circles_at_load"] == []


def test_size_of_the_house(measured):
    """It may not grow past what the plan allows on the way to it."""
    assert measured["package"]["files"] <= 225
    assert len(list((ROOT / "skillopt_ci" / "training").glob("*.py"))) <= 37
    assert len(measured["layers_passing_on"]) <= 4

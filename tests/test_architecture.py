"""The floors of docs/architecture.md, held by the imports that the package really has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def test_floors_and_size_of_the_house():
    command = [sys.executable, ROOT / "scripts" / "stats.py", "--json"]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout
    measured: dict[str, Any] = json.loads(found)
    for bond in ("training → report", "training → integrations", "cli → action"):
        assert measured["forbidden_imports"][bond] == [], "no import points up"
    assert measured["circles_at_load"] == []
    # it may not grow past what the plan allows on the way to it
    assert measured["package"]["files"] <= 225
    assert len(list((ROOT / "skillopt_ci" / "training").glob("*.py"))) <= 37
    assert len(measured["layers_passing_on"]) <= 4

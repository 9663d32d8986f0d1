"""What the version of 2026-11 (commit 3e9ec45) left behind and showed, later ones must, too.

See README.md for what may differ and how fixtures are made. These tests drive the installed
command and import nothing of the package, so that they outlast every move of its modules.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import pytest

from tests.pins import surface
from tests.pins.world import FIXTURES, Case, Place, differences, go_on, normalised, unpack

pytestmark = pytest.mark.integration

ON_PURPOSE = (
    "Leave new fields and settings out at their defaults (docs/architecture.md). On purpose:"
    " .venv/bin/python -m tests.pins.make_fixture --accept"
)
#: Of agents' runs the one that goes on with kept attempts makes all other kinds of attempts too.
CASES = sorted(
    {file.name.removesuffix(".tar.xz") for file in FIXTURES.glob("*.tar.xz")} - {"fresh-agent"}
)


def test_what_failing_pins_say_to_run_runs():
    words = ON_PURPOSE.partition("python ")[2].split()
    subprocess.run([sys.executable, *words], cwd=surface.ROOT, check=True)  # which names nothing


@pytest.mark.parametrize("name", CASES)
def test_go_on_from_fixture(name, tmp_path):
    place = unpack(name, tmp_path)
    case = Case.load((tmp_path / "case.json").read_text(encoding="utf-8"))
    found, expected = go_on(place, case), case.expected
    assert _told(found, case) == _told(expected, case), f"{found['told']}\n{ON_PURPOSE} {name}"
    told = differences(expected, found, likely=case.likely)
    assert not told, "\n".join([*told, ON_PURPOSE, name])
    if case.likely:
        return
    assert found["asked"] <= expected["asked"], "calls that were paid for are asked again"
    lost = {
        table: sorted(set(kept) - set(found["keys"].get(table, ())))
        for table, kept in expected["keys"].items()
    }
    assert not any(lost.values()), f"other keys than those of today: {lost}"


def _told(observed: Mapping[str, Any], case: Case) -> list[tuple[int, list[str]]]:
    """Exit code and lines of JSON of each command."""
    return [
        (told["code"], [normalised(line, likely=case.likely) for line in told["out"].splitlines()])
        for told in observed["told"]
    ]


def test_quickstart(tmp_path):
    found, expected = surface.quickstart(tmp_path), surface.expected("quickstart")
    assert found["told"] == expected["told"], f"{ON_PURPOSE} quickstart"
    assert not (told := differences(expected, found)), "\n".join([*told, ON_PURPOSE, "quickstart"])
    assert found["keys"] == expected["keys"]
    # the README's transcript is its log
    readme = (surface.ROOT / "README.md").read_text(encoding="utf-8")
    block = re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[0]
    shown, *transcript = block.splitlines()
    printed = Place(tmp_path).git(*shown.removeprefix("$ git ").split())
    subjects = [line.partition(" ")[2] for line in transcript if line != "…"]
    assert [subject for subject in subjects if subject not in printed] == []
    assert printed.partition("\n")[0].endswith(subjects[0])  # nothing newer is left out


@pytest.mark.parametrize("name", sorted({*surface.SCENES} - {"quickstart"}))
def test_surface(name, tmp_path):
    found = json.loads(json.dumps(surface.SCENES[name](tmp_path)))
    both = surface.expected(name), found
    old, new = (json.dumps(one, indent=1, sort_keys=True).splitlines() for one in both)
    told = [*unified_diff(old, new, "expected", "found", n=2, lineterm="")]
    assert not told, "\n".join([*told, ON_PURPOSE, name])

import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_ci.util import did_you_mean

PROGRAM = """
import gc, sys
from skillopt_ci.util import lasting_import
before = gc.get_freeze_count()
try:
    lasting_import({name!r})
except ZeroDivisionError:
    print("failed")
first = gc.get_freeze_count()
keep = [[] for _ in range(10_000)]
lasting_import("lasting")
print(first > before, gc.get_freeze_count() == first, gc.isenabled())
"""


def told(folder: Path, name: str) -> list[str]:
    (folder / "lasting.py").write_text("import gc\nassert not gc.isenabled()\n")
    (folder / "failing.py").write_text("import lasting\n1 / 0\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize(("name", "before"), [("lasting", []), ("failing", ["failed"])])
def test_modules_are_frozen_once_and_collection_goes_on(tmp_path, name, before):
    """Also after a module that fails; what was imported already freezes nothing more."""
    assert told(tmp_path, name) == [*before, "True", "True", "True"]


def test_only_what_is_near_is_suggested():
    assert did_you_mean("batchsize", ["seed", "batch_size"]) == "; did you mean 'batch_size'?"
    assert did_you_mean("zzz", ["seed", "batch_size"]) == ""

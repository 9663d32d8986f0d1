import subprocess
import sys

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


@pytest.mark.parametrize(("name", "before"), [("lasting", []), ("failing", ["failed"])])
def test_modules_are_frozen_once_and_collection_goes_on(tmp_path, name, before):
    """Also after a module that fails; what was imported already freezes nothing more."""
    (tmp_path / "lasting.py").write_text("import gc\nassert not gc.isenabled()\n")
    (tmp_path / "failing.py").write_text("import lasting\n1 / 0\n")
    words = [sys.executable, "-c", PROGRAM.format(name=name)]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert told.split() == [*before, "True", "True", "True"]


def test_only_what_is_near_is_suggested():
    assert did_you_mean("batchsize", ["seed", "batch_size"]) == "; did you mean 'batch_size'?"
    assert did_you_mean("zzz", ["seed", "batch_size"]) == ""

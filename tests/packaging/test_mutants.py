"""Which faults ``scripts/mutants.py`` puts into code; test_architecture.py runs ``make stats``."""

import ast

from script_module import script

SOURCE = """\
def f(a: int = 1) -> "int":
    é = "ö" if not a else a + 2
    if é is None or a < 3:
        return "x" + é
    return None

FLAG: bool = True
TEXT = f"{FLAG and 1}"
"""


def test_mutants_of_change_one_expression(tmp_path, monkeypatch):
    mutants, file = script("mutants"), tmp_path / "code.py"
    file.write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    found = list(mutants.mutants_of(file))
    assert {(2, "not a", "(a)"), (3, "a < 3", "(a <= 3)"), (7, "True", "False")} <= {
        (one.line, one.before, one.after) for one in found
    }
    content = file.read_bytes()
    for one in found:
        ast.parse(content[: one.start] + one.after.encode() + content[one.end :])

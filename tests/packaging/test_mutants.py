"""Which faults ``scripts/mutants.py`` puts into code, and where."""

import ast

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

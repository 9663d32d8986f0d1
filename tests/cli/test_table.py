import io
import re
from contextlib import redirect_stdout
from pathlib import Path

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.table import print_rows, print_table

ROWS = [("verdict", "merged"), ("because", "a rather long reason " * 8), ("", "goes on")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def rows(stream: io.StringIO, **environ: str) -> str:
    with redirect_stdout(stream):
        print_rows(Globals({"TERM": "xterm", **environ}, Path()), "Step 1", ROWS)
    return stream.getvalue()


def table(*words: object, dispensable: tuple[str, ...] = (), **environ: str) -> list[str]:
    with redirect_stdout(io.StringIO()) as stream:
        print_table(Globals(environ, Path()), *words, dispensable=dispensable)  # type: ignore[arg-type]
    return stream.getvalue().splitlines()


def test_labels_and_values_are_aligned_under_the_title() -> None:
    lines = rows(io.StringIO()).splitlines()
    assert lines[:2] == ["Step 1", "verdict  merged"]
    assert lines[-1] == "         goes on"


def test_a_file_gets_no_trailing_spaces_no_colour_and_80_columns() -> None:
    text = rows(io.StringIO())
    assert not re.search(r" $|\x1b", text, re.MULTILINE)
    assert 70 < max(map(len, text.splitlines())) <= 80


def test_a_terminal_gets_its_own_width() -> None:
    assert max(map(len, rows(io.StringIO(), COLUMNS="40").splitlines())) <= 40


def test_emphasis_is_for_terminals() -> None:
    assert "\x1b[1m" in rows(Terminal())
    assert "\x1b" not in rows(Terminal(), TERM="dumb")


def test_the_last_column_takes_the_rest() -> None:
    lines = table(("n", "what"), [("1", "word " * 30)], "Title")
    assert lines[:2] == ["Title", "n  what"]
    assert all(line.startswith("   word") for line in lines[3:])


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    rows = [("1", "a", "x"), ("10", "日本", "y"), ("", "", "z")]
    assert table(("n", "b", "what"), rows) == [
        "n   b     what",
        "1   a     x",
        "10  日本  y",
        "          z",
    ]


def test_text_from_outside_is_text() -> None:
    assert (
        table(("a", "b"), [("[bold]x[/bold]", ":smile: \x1b[31m\u202e")])[1]
        == "[bold]x[/bold]  :smile: [31m"
    )


def test_where_room_is_short_dispensable_columns_are_left_out_in_their_order() -> None:
    cells = [("1", "x" * 20, "y" * 20, "12")]
    headings = ("n", "least", "less", "what")
    shown = {}
    for columns in ("80", "40", "20"):
        lines = table(headings, cells, dispensable=("least", "less"), COLUMNS=columns)
        shown[columns] = lines[0].split()
    assert shown == {"80": [*headings], "40": ["n", "less", "what"], "20": ["n", "what"]}

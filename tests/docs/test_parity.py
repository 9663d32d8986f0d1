"""Every row of the comparisons with others is decided, and shown by tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Of each page the headings of the notes on the other's behaviour that have to be answered.
SECTIONS = {
    "parity.md": (*(f"1.{n}" for n in range(18)), "2.1", "2.2", "2.3", "9.8"),
    "parity-nanoeval.md": ("1", "2", "3", "4", "5", "6.2", "7.4"),
}


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, less the head of it."""
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [line.split(" | ") for line in lines if line != "behaviour | here | test"]


@pytest.fixture(params=SECTIONS)
def page(request: pytest.FixtureRequest) -> str:
    return (ROOT / "docs" / request.param).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in SECTIONS for number in SECTIONS[name]]
)
def test_every_section_has_rows(name, number):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(number)} .*\n(?:(?!## ).*\n)*", page, re.MULTILINE)
    assert section
    assert rows(section[0])


def test_every_row_says_what_became_of_the_behaviour_and_how_or_why(page):
    decided = re.compile(r"\*\*(same|better|built right|left out)\*\*")
    assert [row for row in rows(page) if len(row) != 3 or not decided.match(row[1])] == []
    bare = re.compile(r"\*\*(better|left out)\*\*$")
    assert [row for row in rows(page) if bare.search(row[1])] == []
    untested = [row for row in rows(page) if row[2] == "—"]
    assert [row for row in untested if not row[1].startswith("**left out**")] == []


def test_every_test_that_is_named_exists(page):
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert named
    assert [f"{file}::{name}" for file, name in named if not is_test(file, name)] == []


def is_test(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    return path.exists() and f"def {name}(" in path.read_text(encoding="utf-8")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.report.text import Section, compose, cut, size

ROWS = "| a |\n| - |"


def sections(count: int, length: int = 400) -> list[Section]:
    return [
        Section(f"full {number} " + "x" * length, f"short {number} " + "x" * 50, f"| {number} |")
        for number in range(count)
    ]


def composed(count: int, limit: int) -> str:
    return compose("head", sections(count), "tail", row_heading=ROWS, limit=limit)


def test_everything_is_told_in_full_while_there_is_room() -> None:
    assert composed(5, 60_000).count("full") == 5


def test_what_matters_most_keeps_its_words_longest() -> None:
    text = composed(9, 2_000)
    assert text.index("full 0") < text.index("short") < text.index("| 8 |")


def test_what_has_no_room_at_all_is_counted() -> None:
    assert "more before that" in composed(400, 1_500)


def test_head_and_tail_stay() -> None:
    text = composed(400, 1_500)
    assert text.startswith("head\n")
    assert text.endswith("\ntail")


@given(count=st.integers(0, 300), limit=st.integers(800, 5_000))
def test_it_is_never_longer_than_the_limit(count: int, limit: int) -> None:
    assert size(composed(count, limit)) <= limit


@given(text=st.text(max_size=2_000), limit=st.integers(400, 900))
def test_a_cut_text_is_within_the_limit_in_bytes(text: str, limit: int) -> None:
    assert size(cut(text * 3, limit)) <= limit


def test_a_text_that_fits_is_not_touched() -> None:
    assert cut("é" * 100, 200) == "é" * 100


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```diff\n", "\n```\n"),
        ("`````\n```\n", "\n`````\n"),
        ("<details>\n<summary>x</summary>\n\n", "\n</details>"),
        ("<details>\n\n<details>\n\n```\n</details>\n", "\n```\n\n</details>\n\n</details>"),
    ],
)
def test_what_a_cut_leaves_open_is_closed(opening: str, closing: str) -> None:
    assert closing in cut(opening + "line\n" * 500, 800)

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.errors import SkillError
from skillopt_ci.skill.document import (
    body,
    decode,
    ended,
    frontmatter,
    frontmatter_end,
    line_ending,
    sha256,
    word_count,
)

SKILL = "---\nname: pdf\ndescription: d\n---\n\n# Title\n"


def test_sha256_is_that_of_the_utf8_bytes() -> None:
    # printf 'ä' | sha256sum
    assert sha256("ä") == "33e6d73fee82904c8d7afb78de1154d1e8dc2a0edb08120e63df5b9385c2d9cc"


def test_words_are_divided_by_white_space() -> None:
    assert word_count(" one\ttwo\n\nthree-four ") == 3


def test_decode_names_the_line_of_the_first_bad_byte() -> None:
    with pytest.raises(SkillError, match=r"s\.md:2: .*byte 0xff at offset 3"):
        decode(b"ab\n\xff", Path("s.md"))


@given(st.text())
def test_decode_undoes_encoding(text: str) -> None:
    assert decode(text.encode(), Path("s.md")) == text


@pytest.mark.parametrize(
    ("text", "ending"),
    [("", "\n"), ("a", "\n"), ("a\nb", "\n"), ("a\r\nb\r\n", "\r\n"), ("a\r\nb\n", "\n")],
)
def test_line_ending_is_crlf_only_where_all_lines_have_it(text: str, ending: str) -> None:
    assert line_ending(text) == ending


def test_frontmatter_and_body_are_divided() -> None:
    assert frontmatter(SKILL) == "name: pdf\ndescription: d\n"
    assert body(SKILL) == "# Title\n"


def test_frontmatter_span_ends_with_the_closing_dashes() -> None:
    assert SKILL[: frontmatter_end(SKILL)] == "---\nname: pdf\ndescription: d\n---"


@pytest.mark.parametrize(
    "text", ["---\n---\n", "---\r\nname: x\r\n---\r\n", "\ufeff---\na: b\n---"]
)
def test_unusual_frontmatter_is_found(text: str) -> None:
    assert text[: frontmatter_end(text)].endswith("---")
    assert frontmatter_end(text) > 3


@pytest.mark.parametrize(
    "text",
    ["", "# A\n---\n", "---\nname: x\n", "--- x\n---\n", "---\na\n--- b\n", "\n---\na\n---\n"],
)
def test_other_dashes_are_no_frontmatter(text: str) -> None:
    assert frontmatter_end(text) == 0
    assert frontmatter(text) == ""
    assert body(text) == text


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), (" \n\n", ""), ("a", "a\n"), ("a \n\n", "a\n")]
)
def test_ended_texts_have_one_line_break_unless_blank(text: str, expected: str) -> None:
    assert ended(text) == expected

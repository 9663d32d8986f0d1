"""Texts that say the same have the same reading; texts that do not, have not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.regions import reading, reading_sha256

TEXT = "# Title\n\n- One rule.\n    indented\n\nThe end.\n"
documents = st.lists(st.sampled_from(["# A", "- b", "  c", "", " ", "d  ", "\t"])).map("\n".join)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("One rule.", "One rule.  \t"),
        TEXT.replace("\n\n", "\n\n\n \n"),
        f"\n\n{TEXT}\n\n",
        f"{TEXT}\n<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n",
    ],
    ids=["line endings", "ends of lines", "blank lines", "around", "an empty region"],
)
def test_spacing_is_no_difference(other: str) -> None:
    assert reading_sha256(other) == reading_sha256(TEXT)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("    indented", "indented"),
        TEXT.replace("One rule", "one rule"),
        TEXT.replace("\n\n- One", "\n- One"),
        TEXT.replace("One rule", "One  rule"),
    ],
    ids=["indentation", "case", "a paragraph", "words apart"],
)
def test_what_a_reader_sees_is_one(other: str) -> None:
    assert reading_sha256(other) != reading_sha256(TEXT)


@given(documents)
def test_a_reading_reads_as_itself(text: str) -> None:
    assert reading(reading(text)) == reading(text)

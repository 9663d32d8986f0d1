import re

import pytest
from hostile import HOSTILE, problems, shown
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.report.text import block, code, codes, details, inline, quote, single_line, table

FORMS = {
    "inline": inline,
    "code": code,
    "quote": quote,
    "block": block,
    "cell": lambda text: table(("a", "b"), [(inline(text), code(text))]),
    "summary": lambda text: details(f"<b>Step</b> {inline(text)}", inline(text)),
    "after a word": lambda text: f"see {inline(text)} there",
    "at the end of code": lambda text: f"- {code(text)}: {inline(text)}",
}
LETTERS = st.text(
    st.sampled_from("@#$:/\\`*_[]()<>!|~{}^&;'\"-+=.123abwhtpsGH \n\t\u200b\u202e\ud800é"),
    max_size=60,
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert(form: str, text: str) -> None:
    assert problems(FORMS[form](text)) == []


@pytest.mark.parametrize("form", FORMS)
@given(text=st.one_of(LETTERS, st.text(max_size=200)))
def test_no_text_acts(form: str, text: str) -> None:
    assert problems(FORMS[form](text)) == []


@given(text=st.one_of(LETTERS, st.text(max_size=80)))
def test_a_reader_sees_what_was_written(text: str) -> None:
    assert shown(inline(text)) == single_line(text)


@given(text=st.text(max_size=300), limit=st.integers(1, 40))
def test_a_text_is_no_longer_than_asked(text: str, limit: int) -> None:
    assert len(shown(inline(text, limit))) <= limit


@pytest.mark.parametrize(
    "text", ["0.9750 is 0.15 above the current skill's", "a-b_c.d/e", "step 3 of 4, 12:30 o'clock"]
)
def test_plain_words_read_as_they_are(text: str) -> None:
    assert shown(inline(text)) == text


def test_a_fence_is_longer_than_any_inside() -> None:
    assert block("a ````` b").startswith("``````\n")


def test_a_long_block_says_what_it_leaves_out() -> None:
    lines = block("\n".join(str(number) for number in range(100)), lines=10).split("\n")
    assert lines[10:] == ["9", "… 90 more lines", "```"]


def test_a_diff_keeps_its_first_column() -> None:
    assert block(" kept\n-gone\n+new", "diff") == "```diff\n kept\n-gone\n+new\n```"


def test_a_quotation_stays_one_however_many_paragraphs() -> None:
    assert re.findall(r"(?m)^[^>]", quote("one\n\n\ntwo\nthree")) == []


def test_names_beyond_the_limit_are_counted() -> None:
    assert codes([f"t{number}" for number in range(5)], most=2) == (
        "<code>t0</code>, <code>t1</code> and 3 more"
    )


def test_no_names_are_a_word() -> None:
    assert codes(()) == "none"

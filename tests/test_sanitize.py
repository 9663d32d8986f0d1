import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.sanitize import harmless, harmless_line, one_line, visible

ACTING_PARTS = [
    *("@", "#", "12", "GH-", "gh-7", "https:", "http://", "www.", "mailto:", "data:", "git:"),
    *("[skip ci]", "[ci skip]", "[", "]", "skip-", "ci", "no ", "a", "evil.com", "/", ".", " "),
    *("\n", "\r", "\x1b[31m", "\x00", "\u202e", "\u200b", "\ufeff", "\ud800", "_", "é", "…"),
]
HOSTILE = st.lists(st.sampled_from(ACTING_PARTS), max_size=40).map("".join) | st.text()
LIMITS = st.integers(1, 200)
ACTING = re.compile(
    r"@\w|#\d|(?<![a-z0-9])gh-\d|(?<![a-z0-9])(https?|ftp|ssh|git|mailto|data|javascript):\S"
    r"|(?<![a-z0-9])www\.\S|\[(skip|no) ci\]|\[ci skip\]|\[(skip actions|actions skip)\]",
    re.IGNORECASE,
)


@given(HOSTILE, LIMITS)
def test_a_line_is_within_its_limit_without_what_acts_and_stays_as_it_is(text, limit):
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert not ACTING.search(line)
    assert one_line(line, limit) == line


@given(HOSTILE)
def test_no_unseen_character_survives(text):
    kinds = {unicodedata.category(letter) for letter in visible(text) if letter not in "\n\t"}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn"}
    visible(text).encode("utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask @octocat", "ask (at)octocat"),
        ("mail ada@example.org", "mail ada(at)example.org"),
        ("Fixes #12 and GH-7 for @#1", "Fixes no. 12 and no. 7 for (at)no. 1"),
        ("see https://evil.example/?q", "see https: //evil.example/?q"),
        ("see www.evil.example", "see www. evil.example"),
        ("done [skip ci]", "done (skip ci)"),
        ("\x1b[2Jred\u202e", "[2Jred"),
    ],
)
def test_what_would_act_stays_readable(text, expected):
    assert one_line(text, 80) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("Write 7 % as `VAT7`.", "C# and a # heading", "a [link] (no)"),
        *("10:30", "Größe → 3 €", "e-mail"),
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert one_line(text, 80) == text


def test_a_long_text_is_cut_between_words():
    assert one_line("Refunds are negative: a minus sign stands", 26) == "Refunds are negative: a…"
    assert one_line("Refunds are negative: a minus", 23) == "Refunds are negative…"
    assert [one_line("x" * size, 40) for size in (40, 41)] == ["x" * 40, "x" * 39 + "…"]


@pytest.mark.parametrize(
    "text", ["::error::x", "  ::add-mask::x", "a\n::set-env::x", "b ##[error]x"]
)
def test_no_command_reaches_a_ci_runner(text):
    for told in (harmless(text), one_line(text, 80)):
        assert not any(line.lstrip().startswith("::") for line in told.splitlines())
        assert "##[" not in told


def test_words_stay():
    assert harmless("a::b # [x]\n  c: d") == "a::b # [x]\n  c: d"


@given(st.text())
def test_a_line_is_one_line_without_control_characters(text):
    told = harmless_line(text)
    assert len(told.splitlines()) <= 1
    assert not any(unicodedata.category(character) == "Cc" for character in told)

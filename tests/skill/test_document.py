import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.document import (
    body,
    documents,
    ended,
    frontmatter,
    frontmatter_end,
    line_ending,
    place_of,
    sha256,
    word_count,
)

SKILL = "---\nname: pdf\ndescription: d\n---\n\n# Title\n"


def test_sha256_is_that_of_the_utf8_bytes():
    # printf 'ä' | sha256sum
    assert sha256("ä") == "33e6d73fee82904c8d7afb78de1154d1e8dc2a0edb08120e63df5b9385c2d9cc"


def test_words_are_divided_by_white_space():
    assert word_count(" one\ttwo\n\nthree-four ") == 3


@pytest.mark.parametrize(
    ("text", "ending"),
    [("", "\n"), ("a", "\n"), ("a\nb", "\n"), ("a\r\nb\r\n", "\r\n"), ("a\r\nb\n", "\n")],
)
def test_line_ending_is_crlf_only_where_all_lines_have_it(text, ending):
    assert line_ending(text) == ending


def test_frontmatter_and_body_are_divided():
    assert frontmatter(SKILL) == "name: pdf\ndescription: d\n"
    assert body(SKILL) == "# Title\n"


def test_frontmatter_span_ends_with_the_closing_dashes():
    assert SKILL[: frontmatter_end(SKILL)] == "---\nname: pdf\ndescription: d\n---"


@pytest.mark.parametrize(
    "text", ["---\n---\n", "---\r\nname: x\r\n---\r\n", "\ufeff---\na: b\n---"]
)
def test_unusual_frontmatter_is_found(text):
    assert text[: frontmatter_end(text)].endswith("---")
    assert frontmatter_end(text) > 3


@pytest.mark.parametrize(
    "text",
    ["", "# A\n---\n", "---\nname: x\n", "--- x\n---\n", "---\na\n--- b\n", "\n---\na\n---\n"],
)
def test_other_dashes_are_no_frontmatter(text):
    assert frontmatter_end(text) == 0
    assert frontmatter(text) == ""
    assert body(text) == text


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), (" \n\n", ""), ("a", "a\n"), ("a \n\n", "a\n")]
)
def test_ended_texts_have_one_line_break_unless_blank(text, expected):
    assert ended(text) == expected


# Which files agents read.


@pytest.mark.parametrize(
    ("path", "reader"),
    [
        ("AGENTS.md", "agents"),
        ("services/api/AGENTS.md", "agents"),
        ("CLAUDE.md", "Claude Code"),
        ("GEMINI.md", "Gemini CLI"),
        (".claude/skills/ledger/SKILL.md", "Claude Code"),
        ("plugins/x/.claude/skills/ledger/SKILL.md", "Claude Code"),
        (".github/skills/ledger/SKILL.md", "Copilot"),
        (".agents/skills/ledger/SKILL.md", "agents"),
        ("skills/ledger/SKILL.md", "agents"),
        ("SKILL.md", "agents"),
        (".github/copilot-instructions.md", "Copilot"),
        (".github/instructions/python.instructions.md", "Copilot"),
        (".cursor/rules/style.mdc", "Cursor"),
    ],
)
def test_an_agents_document_is_known_with_its_reader(path, reader):
    place = place_of(path)
    assert place is not None
    assert place.reader == reader


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/agents.md",
        "skill.md",
        "AGENTS.md.bak",
        ".cursor/rules/deep/er/style.md",
        ".skillopt/ledger/SKILL.md",
    ],
)
def test_other_files_are_none(path):
    assert place_of(path) is None


@given(st.lists(st.sampled_from(["AGENTS.md", "a/SKILL.md", "x.md", "b/CLAUDE.md"])))
def test_each_document_is_listed_once_and_in_order(paths):
    found = [path for path, _ in documents(paths)]
    assert found == sorted(set(paths) - {"x.md"})

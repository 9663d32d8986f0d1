import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill import document
from skillopt_ci.skill.diff import DiffRow, diff_rows, undone, unified_diff

SKILL = "---\nname: pdf\ndescription: d\n---\n\n# Title\n"


@pytest.mark.parametrize(
    ("text", "ending"),
    [("", "\n"), ("a", "\n"), ("a\nb", "\n"), ("a\r\nb\r\n", "\r\n"), ("a\r\nb\n", "\n")],
)
def test_line_ending_is_crlf_only_where_all_lines_have_it(text, ending):
    assert document.line_ending(text) == ending


def test_frontmatter_and_body_are_divided():
    assert document.frontmatter(SKILL) == "name: pdf\ndescription: d\n"
    assert document.body(SKILL) == "# Title\n"
    assert SKILL[: document.frontmatter_end(SKILL)] == "---\nname: pdf\ndescription: d\n---"


@pytest.mark.parametrize(
    "text", ["---\n---\n", "---\r\nname: x\r\n---\r\n", "\ufeff---\na: b\n---"]
)
def test_unusual_frontmatter_is_found(text):
    assert text[: document.frontmatter_end(text)].endswith("---")
    assert document.frontmatter_end(text) > 3


@pytest.mark.parametrize(
    "text",
    ["", "# A\n---\n", "---\nname: x\n", "--- x\n---\n", "---\na\n--- b\n", "\n---\na\n---\n"],
)
def test_other_dashes_are_no_frontmatter(text):
    assert (document.frontmatter_end(text), document.frontmatter(text)) == (0, "")
    assert document.body(text) == text


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
    assert document.reader_of(path) == reader


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
    assert document.reader_of(path) is None


lines = st.lists(st.sampled_from(["a", "b", "é", "\x0c", ""]), max_size=6)
ends = st.sampled_from(["", "\n"])
texts = st.tuples(lines, ends).map(lambda drawn: "\n".join(drawn[0]) + drawn[1])


def test_changed_lines_stand_in_their_context():
    assert unified_diff("a\nb\nc\n", "a\nB\nc\n", name="x.md", context=1) == (
        "--- a/x.md\n+++ b/x.md\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )
    assert unified_diff("a", "a\n").endswith("-a\n\\ No newline at end of file\n+a\n")


def test_git_applies_the_diff(tmp_path):
    before, after = "one\ntwo\x0cstill two\r\nthree", "one\n2\n\nthree\nfour\n"
    skill = tmp_path / "SKILL.md"
    skill.write_text(before, encoding="utf-8", newline="")
    patch = unified_diff(before, after).encode()
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch, check=True)
    assert skill.read_text(encoding="utf-8") == after


# Diffs with their changed words marked.

LINES = st.lists(st.text("ab \t", max_size=6), max_size=12).map("\n".join)


def text(row: DiffRow) -> str:
    return "".join(span.text for span in row.spans)


def test_the_changed_words_of_a_line_are_marked():
    old, new = diff_rows("Write dates day first.\n", "Write dates year first.\n")
    assert (old.kind, [span.text for span in old.spans if span.changed]) == ("removed", ["day"])
    assert (new.kind, [span.text for span in new.spans if span.changed]) == ("added", ["year"])
    rows = diff_rows("abc def\n", "quite another thing altogether\n")
    assert not any(span.changed for row in rows for span in row.spans)


def test_what_lies_between_changes_is_a_gap():
    old = "\n".join(map(str, range(40)))
    new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n")
    kinds = [row.kind for row in diff_rows(old, new)]
    assert kinds.count("gap") == 2
    assert (kinds.count("removed"), kinds.count("added"), kinds.count("same")) == (2, 2, 8)


@given(LINES, LINES)
def test_removed_and_added_lines_are_those_of_the_texts(before, after):
    rows = diff_rows(before, after)
    for kinds, whole in ((("removed", "same"), before), (("added", "same"), after)):
        lines = iter(whole.split("\n"))
        assert all(text(row) in lines for row in rows if row.kind in kinds)
        assert diff_rows(whole, whole) == ()


@given(before=texts, after=texts)
def test_a_change_can_be_undone_where_nothing_else_changed(before, after):
    assert undone(before, after, after) == before


@pytest.mark.parametrize(
    ("before", "after", "now", "found"),
    [
        ("a\n", "a\nrule\n", "a\nrule\nlater\n", "a\nlater\n"),
        ("a\n", "a\nrule\n", "mine\nrule\n", "mine\n"),
        ("a\n", "a\n\nrule\n", "a\n\nnewer\n\nrule\n", "a\n\nnewer\n"),
        ("a\nold\nb\n", "a\nnew\nb\n", "a\nnew\nlater\nb\n", "a\nold\nlater\nb\n"),
        ("a\ngone\n", "a\n", "a\nlater\n", "a\ngone\nlater\n"),
        ("a\n", "a\none\ntwo\n", "a\none\nmine\ntwo\n", None),
        ("a\n", "a\nrule\n", "a\nruled\n", None),
        ("a\ngone\nb\n", "a\nb\n", "x\ny\n", None),
    ],
)
def test_what_came_later_stays_and_what_was_changed_since_is_a_conflict(before, after, now, found):
    assert undone(before, after, now) == found

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_ci.skill.diff import unified_diff

lines = st.lists(st.sampled_from(["a", "b", "é", "\x0c", ""]), max_size=6)
texts = st.tuples(lines, st.sampled_from(["", "\n"])).map(
    lambda drawn: "\n".join(drawn[0]) + drawn[1]
)


def test_changed_lines_stand_in_their_context() -> None:
    assert unified_diff("a\nb\nc\n", "a\nB\nc\n", name="x.md", context=1) == (
        "--- a/x.md\n+++ b/x.md\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


@given(texts)
def test_equal_texts_have_no_diff(text: str) -> None:
    assert unified_diff(text, text) == ""


def test_a_missing_line_break_at_the_end_is_told() -> None:
    assert unified_diff("a", "a\n").endswith("-a\n\\ No newline at end of file\n+a\n")


def test_git_applies_the_diff(tmp_path: Path) -> None:
    before, after = "one\ntwo\x0cstill two\r\nthree", "one\n2\n\nthree\nfour\n"
    skill = tmp_path / "SKILL.md"
    skill.write_text(before, encoding="utf-8", newline="")
    patch = unified_diff(before, after).encode()
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch, check=True, timeout=30)
    assert skill.read_text(encoding="utf-8") == after


@settings(max_examples=50)
@given(texts, texts)
def test_the_added_and_removed_lines_are_in_the_texts(before: str, after: str) -> None:
    changed = unified_diff(before, after).split("\n")[3:]
    assert {line[1:] for line in changed if line[:1] == "+"} <= set(after.split("\n"))
    assert {line[1:] for line in changed if line[:1] == "-"} <= set(before.split("\n"))

"""Diffs with their changed words marked."""

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.diff import DiffRow, diff_rows

LINES = st.lists(st.text("ab \t", max_size=6), max_size=12).map("\n".join)


def text(row: DiffRow) -> str:
    return "".join(span.text for span in row.spans)


def test_the_changed_words_of_a_line_are_marked() -> None:
    old, new = diff_rows("Write dates day first.\n", "Write dates year first.\n")
    assert (old.kind, [span.text for span in old.spans if span.changed]) == ("removed", ["day"])
    assert (new.kind, [span.text for span in new.spans if span.changed]) == ("added", ["year"])


def test_lines_with_little_in_common_are_two_lines() -> None:
    rows = diff_rows("abc def\n", "quite another thing altogether\n")
    assert not any(span.changed for row in rows for span in row.spans)


def test_what_lies_between_changes_is_a_gap() -> None:
    old = "\n".join(map(str, range(40)))
    new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n")
    kinds = [row.kind for row in diff_rows(old, new)]
    assert kinds.count("gap") == 2
    assert (kinds.count("removed"), kinds.count("added"), kinds.count("same")) == (2, 2, 8)


@given(LINES, LINES)
def test_removed_and_added_lines_are_those_of_the_texts(before: str, after: str) -> None:
    rows = diff_rows(before, after)
    for kinds, whole in ((("removed", "same"), before), (("added", "same"), after)):
        lines = iter(whole.split("\n"))
        assert all(text(row) in lines for row in rows if row.kind in kinds)


@given(LINES)
def test_equal_texts_have_no_rows(whole: str) -> None:
    assert diff_rows(whole, whole) == ()

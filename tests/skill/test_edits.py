import re
from itertools import count

import pytest
from hostile import to_html
from hypothesis import example, given
from hypothesis import strategies as st

from skillopt_ci.skill.document import line_ending
from skillopt_ci.skill.edits import Edit, EditStatus, apply_edits
from skillopt_ci.skill.regions import APPENDIX, REGIONS, SLOW_UPDATE, protected_parts

S, E = SLOW_UPDATE.start, SLOW_UPDATE.end
BLOCK = f"{S}\nhint\n{E}\n"
FRONT = "---\nname: x\n---\n"
NOTES = APPENDIX.start
MARKED = f"---\nname: '{S}'\n---\nbody\n"
BEFORE_REGION = EditStatus.APPENDED_BEFORE_REGION
ELSE_BEFORE_REGION = EditStatus.INSERTED_BEFORE_REGION
ADDED = Edit("append", content="x")
CRLF = "a\r\nb\r\n\r\nc\r\nd\r\n"
TAGGED = "<x>\n```\na\n\nb\n```\n</x>\n"
OPENED = f"rule {S}\nhint\n{E}\n"
PIECES = [
    *(mark for region in REGIONS for mark in (region.start, region.end)),
    *("---\n", "name: x\n", "rule one", "rule", "\n", "\n\n", " ", "<!-- SLOW_", "UPDATE_END -->"),
]
OPS = ["append", "insert_after", "replace", "delete", "Replace ", "rename", ""]

pieces = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
documents = pieces | pieces.map(lambda text: text.replace("\n", "\r\n")) | st.text(max_size=20)
short = st.lists(st.sampled_from(PIECES), max_size=3).map("".join) | st.text(max_size=3)
edits = st.builds(Edit, op=st.sampled_from(OPS), target=short, content=short)


def applied(text: str, edit: Edit) -> tuple[str, EditStatus]:
    changed, (report,) = apply_edits(text, [edit])
    return changed, report.status


@pytest.mark.parametrize(
    ("before", "edit", "after", "status"),
    [
        # appending: a paragraph at the end, or before the first region
        ("- a\n\n\n", Edit("append", content="\n- b \n"), "- a\n\n- b\n", EditStatus.APPENDED),
        ("", Edit("append", content="a"), "a\n", EditStatus.APPENDED),
        (FRONT, Edit("append", content="a"), f"{FRONT}\na\n", EditStatus.APPENDED),
        ("a\n", Edit("append", content=f"{S}b{E}"), "a\n\nb\n", EditStatus.APPENDED),
        (f"a\n\n{BLOCK}", Edit("append", content="b"), f"a\n\nb\n\n{BLOCK}", BEFORE_REGION),
        (f"ab{NOTES}{S}{E}", ADDED, f"ab\n\nx\n\n{NOTES}{S}{E}\n", BEFORE_REGION),
        (f"ab{E}", ADDED, f"ab{E}\n\nx\n", EditStatus.APPENDED),
        (MARKED, ADDED, f"{MARKED}\nx\n", EditStatus.APPENDED),
        (f"a\n{NOTES}\n", Edit("append", content="b"), f"a\n\nb\n\n{NOTES}\n", BEFORE_REGION),
        # a code block that was left open is closed first
        (f"~~~~\na\n{BLOCK}", ADDED, f"~~~~\na\n~~~~\n\nx\n\n{BLOCK}", BEFORE_REGION),
        ("- a\n  ```\n  b", ADDED, "- a\n  ```\n  b\n\nx\n", EditStatus.APPENDED),
        (TAGGED, ADDED, f"{TAGGED}\nx\n", EditStatus.APPENDED),
        # inserting: below the target's line, else at the end
        ("a\n", Edit("insert_after", "", "b"), "a\n\nb\n", EditStatus.INSERTED_AT_END),
        ("a\n", Edit("insert_after", "missing", "b"), "a\n\nb\n", EditStatus.INSERTED_AT_END),
        ("a\n", Edit("insert_after", S, "b"), "a\n\nb\n", EditStatus.INSERTED_AT_END),
        (f"a\n\n{BLOCK}", Edit("insert_after", "c", "b"), f"a\n\nb\n\n{BLOCK}", ELSE_BEFORE_REGION),
        # not below a line that opens a region
        (OPENED, Edit("insert_after", "rule", "b"), OPENED, EditStatus.PROTECTED),
        # replacing and deleting: the first occurrence, however much white space is around it
        ("a a\n", Edit("replace", "a", "b"), "b a\n", EditStatus.REPLACED),
        ("- a\n- c\n", Edit("replace", "- a\n", "- b"), "- b\n- c\n", EditStatus.REPLACED),
        ("a\nb\n", Edit("replace", "a\n", ""), "b\n", EditStatus.REPLACED),
        ("a\n\nb\n", Edit("replace", "\n a \n", "c"), "c\n\nb\n", EditStatus.REPLACED),
        ("a\n", Edit("replace", f"{S}\na", "b"), "b\n", EditStatus.REPLACED),
        ("- a\n- a\n", Edit("delete", "- a\n", "ignored"), "- a\n", EditStatus.DELETED),
        ("a\n", Edit("delete", "a"), "", EditStatus.DELETED),
        ("a\r\nb\r\n", Edit("insert_after", "a\nb", "c\nd"), CRLF, EditStatus.INSERTED),
        ("a\r\nb\r\nc\n", Edit("delete", "a\nb\n"), "c\n", EditStatus.DELETED),
    ],
)
def test_apply_edits_changes_the_document(before, edit, after, status):
    assert applied(before, edit) == (after, status)


@pytest.mark.parametrize(
    ("text", "target", "content", "after"),
    [
        *(("- rule one\n- two\n", t, "b", "- rule one\n\nb\n- two\n") for t in ("ule", "one\n")),
        # nothing becomes part of what is inserted, and a paragraph, item or table stays whole
        ("## H\nText\n", "## H", "- b", "## H\n\n- b\n\nText\n"),
        ("One. Two\nlines.\n", "One.", "- b", "One. Two\nlines.\n\n- b\n"),
        ("- a\n  wraps\n- c\n", "- a", "- b", "- a\n  wraps\n\n- b\n- c\n"),
        ("- a\n\n  - c\n  - d\n", "- a", "- b", "- a\n\n  - c\n  - d\n\n- b\n"),
        ("- a\n  - c\n  - d\n", "\n  - c", "- b", "- a\n  - c\n\n  - b\n  - d\n"),
        ("- a\n  - c\n  - d\n", "a\n  - c", "- b", "- a\n  - c\n  - d\n\n- b\n"),
        ("- a\n  - c\n", "- c", "  - b\n  - d", "- a\n  - c\n\n  - b\n  - d\n"),
        ("- a\n  #1 <b>and</b>\n  c\n", "#1", "- b", "- a\n  #1 <b>and</b>\n  c\n\n- b\n"),
        ("- a\n\nText\n", "- a\n\n", "- b", "- a\n\n- b\n\nText\n"),
        ("1. a\n   wraps\n2. c\n", "1. a", "2. b", "1. a\n   wraps\n\n2. b\n\n2. c\n"),
        ("> q\n> r\n\nText\n", "> q", "> b", "> q\n> r\n\n> b\n\nText\n"),
        ("<x>\na\nc\n</x>\n", "<x>", "b", "<x>\n\nb\n\na\nc\n</x>\n"),
        ("<x>\na\nc\n</x>\n", "a", "b", "<x>\na\nc\n\nb\n\n</x>\n"),
        ("|a|\n|-|\n|1|\n|2|\n", "|1|", "b", "|a|\n|-|\n|1|\n|2|\n\nb\n"),
        ("|a|\n|-|\n|1|\n", "|a|", "|2|", "|a|\n|-|\n|1|\n|2|\n"),
        ("- a\n\n  |a|\n  |-|\n", "|-|", "|2|", "- a\n\n  |a|\n  |-|\n  |2|\n"),
        # code keeps its order
        ("```\na\nc\n```\n", "a", "b", "```\na\n\nb\n\nc\n```\n"),
        ("```\na\n```\nText\n", "a\n```", "b", "```\na\n```\n\nb\n\nText\n"),
        ("- a\n  ```\n  c\n  d\n", "c", "b", "- a\n  ```\n  c\n\n  b\n\n  d\n"),
        ("```\n```go\na\n```\n```\nd\ne\n", "d", "b", "```\n```go\na\n```\n```\nd\ne\n\nb\n"),
        ("````\n```\na\n  c\n```\n````\n", "a", "b", "````\n```\na\n\nb\n\n  c\n```\n````\n"),
    ],
)
def test_insert_after_goes_below_what_the_target_belongs_to(text, target, content, after):
    assert applied(text, Edit("insert_after", target, content)) == (after, EditStatus.INSERTED)


#: Blocks as agents write them; `w` stands for a word.
BLOCKS = (
    *("# w", "w\n===", "w\nw", "- w\n  w\n  - w\n- w", "1. w\n\n   w\n2. w", "> w\n> w"),
    *("|w|\n|-|\n|w|\n|w|", "- w\n  ```\n  w\n\n  w\n  ```", "~~~\nw\n```\nw\n~~~"),
    "````\nw\n```\nw\n  w\n```\nw\n````",
)


def places(markdown: str) -> dict[str, str]:
    """The tags around each word."""
    found, path = {}, ""
    for end, tag, word in re.findall(r"<(/?)(pre|li|blockquote|h1|tr)\b|(w\d+)", to_html(markdown)):
        path = path.removesuffix(tag) if end else path + tag
        if word:
            found[word] = path
    return found


@given(st.lists(st.sampled_from(BLOCKS), max_size=4))
def test_an_inserted_rule_changes_no_other_block(blocks):
    numbers = count()
    text = re.sub("w", lambda _: f"w{next(numbers)}", "\n\n".join(blocks))
    for word in places(text):
        after, _ = applied(text, Edit("insert_after", word, "- rule"))
        assert places(after) == places(text)


@pytest.mark.parametrize(
    ("op", "target", "content", "status"),
    [
        ("append", "a", f" {S}\n", EditStatus.EMPTY),
        ("insert_after", "a", f" {S}\n", EditStatus.EMPTY),
        ("replace", "", "b", EditStatus.REPLACE_NO_TARGET),
        ("replace", " \n", "b", EditStatus.REPLACE_NO_TARGET),
        ("replace", "A", "b", EditStatus.REPLACE_NOT_FOUND),
        ("delete", E, "b", EditStatus.DELETE_NO_TARGET),
        ("delete", "missing", "b", EditStatus.DELETE_NOT_FOUND),
        ("rename", "a", "b", EditStatus.UNKNOWN_OP),
        ("", "a", "b", EditStatus.UNKNOWN_OP),
    ],
)
def test_an_edit_that_cannot_be_done_is_skipped(op, target, content, status):
    assert applied("a", Edit(op, target, content)) == ("a", status)


@pytest.mark.parametrize("op", ["append", "insert_after", "replace", "delete"])
@pytest.mark.parametrize("target", ["hint", f"rule\n{S}", "name: x", f"{S}\nhint", "---\nrule"])
def test_protected_parts_are_off_limits(op, target):
    text = f"{FRONT}rule\n{BLOCK}"
    assert applied(text, Edit(op, target, "evil")) == (text, EditStatus.PROTECTED)


def test_the_first_occurrence_outside_the_protected_parts_counts():
    text = f"{FRONT}\nname: x\n\n{BLOCK}"
    assert applied(text, Edit("delete", "name: x\n"))[0] == f"{FRONT}\n\n{BLOCK}"


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("<!-- SLOW_XUPDATE_START -->\n", Edit("delete", "X")),
        ("X -->\n", Edit("replace", "X", "<!-- APPENDIX_END")),
        (FRONT + "b\n", Edit("replace", "\nb", "b")),
        ("X\nname: x\n---\n", Edit("replace", "X", "---")),
    ],
)
def test_no_marker_or_frontmatter_can_be_made_or_broken(text, edit):
    changed, _ = applied(text, edit)
    assert protected_parts(changed) == protected_parts(text)


def test_each_edit_sees_what_the_one_before_left():
    changes = [Edit("append", content="b"), Edit("replace", "b", "c"), Edit("delete", "b")]
    changed, reports = apply_edits("a\n", changes)
    assert changed == "a\n\nc\n"
    assert [report.status.value for report in reports] == [
        "applied_append",
        "applied_replace",
        "skipped_delete_target_not_found",
    ]


@given(documents, st.lists(edits, max_size=4))
def test_no_edits_touch_a_protected_part(text, changes):
    changed, reports = apply_edits(text, changes)
    assert protected_parts(changed) == protected_parts(text)
    assert [report.edit for report in reports] == changes


@given(documents, edits)
def test_a_document_ends_with_one_line_break_unless_the_edit_is_skipped(text, edit):
    changed, status = applied(text, edit)
    whole = ("", changed.rstrip() + line_ending(changed)) if status.applied else (text,)
    assert changed in whole


@given(documents, edits, edits)
@example("name: x\r\n", Edit("delete", "name: x"), ADDED)
def test_edits_in_a_row_are_edits_one_at_a_time(text, first, second):
    both, _ = apply_edits(text, [first, second])
    left, _ = apply_edits(text, [first])
    # an empty document has no line endings to keep
    assert apply_edits(left, [second])[0] == (both if left else both.replace("\r\n", "\n"))


def test_a_refused_edit_is_skipped_with_its_reason_and_the_next_one_applied():
    wanted = [Edit("append", content="evil"), Edit("append", content="good")]
    text, reports = apply_edits("- a\n", wanted, lambda _, after: "no" if "evil" in after else None)
    assert text == "- a\n\ngood\n"
    told = [(report.status, report.reason) for report in reports]
    assert told == [(EditStatus.REFUSED, "no"), (EditStatus.APPENDED, "")]
    missing = Edit("replace", target="nowhere", content="evil")
    _, (report,) = apply_edits("- a\n", [missing], lambda *_: "no")
    assert report.status is EditStatus.REPLACE_NOT_FOUND

"""What the pages tell their readers to do works, in this order, and prints what they show."""

from __future__ import annotations

import pytest
from doc_blocks import ROOT, Block, Command, blocks, commands, documents, read_blocks, run_in
from doc_walk import mismatch, scratch

PAGES = [file for file in documents() if run_in(file)]


@pytest.mark.end_to_end
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, tmp_path):
    place = scratch(tmp_path, run_in(page))
    for block in read_blocks(page):
        if not block.not_run:
            place.do(block)


def test_the_tutorial_is_run():
    assert ROOT / "docs" / "tutorial.md" in PAGES


def block(text: str) -> Block:
    (found,) = blocks(ROOT / "docs" / "page.md", text)
    return found


def test_a_block_knows_its_line_its_title_and_its_remark():
    text = '# Page\n\n<!-- not run: it costs money -->\n```yaml title="a.yaml"\nrun: a\n```\n'
    found = block(text)
    assert (found.line, found.language, found.title) == (4, "yaml", "a.yaml")
    assert found.text == "run: a\n"
    assert found.not_run == "it costs money"
    assert str(found) == "docs/page.md:4"


def test_an_indented_block_loses_its_indentation_only():
    assert block("- so:\n\n  ```yaml\n  a:\n    b: 1\n  ```\n").text == "a:\n  b: 1\n"


def test_a_remark_belongs_to_the_next_block_only():
    text = "<!-- not run: it costs money -->\n```sh\na\n```\ntext\n\n```sh\nb\n```\n"
    assert [found.not_run for found in blocks(ROOT / "page.md", text)] == ["it costs money", ""]


def test_a_block_that_never_ends_is_named():
    with pytest.raises(ValueError, match=r"page\.md:2: this block never ends"):
        list(blocks(ROOT / "page.md", "text\n```sh\na\n"))


def test_prompts_part_commands_from_what_they_print():
    found = commands(block("```console\n$ one\nout\n$ two \\\n> more\n```\n"))
    assert found == [Command("one", ("out",)), Command("two \\\nmore")]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (("a",), "a\n"),
        (("a…z",), "a to z\n"),
        (("…", "end"), "any\nlines\nend\n"),
        (("a", "…", "b"), "a\nb\n"),
        (("commit abcdef1",), "commit 1234567\n"),
        (("took 0.1 s",), "took 12.5 s\n"),
        ((), "anything\n"),
    ],
)
def test_output_is_as_shown(shown, printed):
    assert mismatch(Command("x", shown), printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [(("a",), "b\n"), (("a",), "a\nb\n"), (("a", "b"), "a\n"), (("score 0.5",), "score 0.6\n")],
)
def test_other_output_is_found(shown, printed):
    assert mismatch(Command("x", shown), printed)


def test_a_command_that_fails_is_named_with_what_it_printed(tmp_path):
    place = scratch(tmp_path, "an empty folder")
    with pytest.raises(
        AssertionError, match=r"docs/page\.md:1: echo no; false\nit ended with 1:\nno"
    ):
        place.do(block("```sh\necho no; false\n```\n"))


def test_the_next_command_starts_where_the_last_one_ended(tmp_path):
    place = scratch(tmp_path, "an empty folder")
    place.do(block("```sh\nmkdir there && cd there\n```\n"))
    place.do(block("```sh\ntest $(basename $PWD) = there\n```\n"))

"""What the pages tell their readers to do works, in this order, and prints what they show."""

import pytest
from doc_blocks import ROOT, Command, blocks, documents, read_blocks, run_in
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


@pytest.mark.parametrize(
    ("shown", "printed"),
    [(("a",), "b\n"), (("a",), "a\nb\n"), (("a", "b"), "a\n"), (("score 0.5",), "score 0.6\n")],
)
def test_other_output_is_found(shown, printed):
    assert mismatch(Command("x", shown), printed)


@pytest.mark.end_to_end
def test_a_command_that_fails_is_named_with_what_it_printed(tmp_path):
    place = scratch(tmp_path, "an empty folder")
    (block,) = blocks(ROOT / "docs" / "page.md", "```sh\necho no; false\n```\n")
    with pytest.raises(AssertionError, match=r"docs/page\.md:1: echo no; false\nit ended with 1:"):
        place.do(block)

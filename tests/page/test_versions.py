"""Where the lines of a document came from."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.report.html_data import Version, library, passages

TEXTS = st.lists(
    st.lists(st.sampled_from(["one", "two", "three", "", "four"]), max_size=8).map("\n".join),
    max_size=6,
)


def origins(*texts: str) -> list[tuple[int, str]]:
    found = passages([Version(str(number), text) for number, text in enumerate(texts)])
    return [(part.origin, line) for part in found for line in part.lines]


def test_a_line_is_as_old_as_it_is_unchanged() -> None:
    assert origins("a\nb\n", "a\nnew\nb\n", "a\nnew\nb changed\n") == [
        (0, "a"),
        (1, "new"),
        (2, "b changed"),
    ]


def test_a_line_that_came_back_is_as_old_as_its_return() -> None:
    assert origins("a\nb\n", "a\n", "a\nb\n") == [(0, "a"), (2, "b")]


def test_a_blank_line_belongs_to_the_one_before_it() -> None:
    found = passages([Version("", "a\n\nb\n"), Version("", "a\n\nb\n\nc\n\n")])
    assert [(part.origin, part.first_line, part.lines) for part in found] == [
        (0, 1, ("a", "", "b", "")),
        (1, 5, ("c", "")),
    ]


@given(TEXTS)
def test_passages_are_the_newest_text_whole_and_in_order(texts: list[str]) -> None:
    lines = [line for _, line in origins(*texts)]
    newest = texts[-1] if texts else ""
    assert lines == (newest.removesuffix("\n").split("\n") if newest else [])


@given(TEXTS)
def test_neighbouring_passages_differ_in_origin(texts: list[str]) -> None:
    found = passages([Version("", text) for text in texts])
    assert all(one.origin != other.origin for one, other in pairwise(found))


@given(TEXTS)
def test_a_library_gives_every_text_back(texts: list[str]) -> None:
    stored = library(texts)
    back = ["\n".join(stored.lines[index] for index in text) for text in stored.texts]
    assert back == texts
    assert len(set(stored.lines)) == len(stored.lines)

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.report.html_page import passages

TEXTS = st.lists(
    st.lists(st.sampled_from(["one", "two", "three", "", "four"]), max_size=8).map("\n".join),
    max_size=6,
)


def origins(*texts: str) -> list[tuple[int, str]]:
    return [(origin, line) for origin, lines in passages(texts) for line in lines]


def test_a_line_is_as_old_as_it_is_unchanged():
    found = origins("a\nb\n", "a\nnew\nb\n", "a\nnew\nb changed\n")
    assert found == [(0, "a"), (1, "new"), (2, "b changed")]
    assert origins("a\nb\n", "a\n", "a\nb\n") == [(0, "a"), (2, "b")]


def test_a_blank_line_belongs_to_the_one_before_it():
    found = passages(["a\n\nb\n", "a\n\nb\n\nc\n\n"])
    assert list(found) == [(0, ("a", "", "b", "")), (1, ("c", ""))]


@given(TEXTS)
def test_passages_are_the_newest_text_whole_and_in_order(texts):
    lines = [line for _, line in origins(*texts)]
    newest = texts[-1] if texts else ""
    assert lines == (newest.removesuffix("\n").split("\n") if newest else [])


@given(TEXTS)
def test_neighbouring_passages_differ_in_origin(texts):
    assert all(one != other for one, other in pairwise([origin for origin, _ in passages(texts)]))

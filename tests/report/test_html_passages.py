import time
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


def test_a_line_is_as_old_as_it_is_unchanged_a_blank_one_as_the_line_before():
    found = origins("a\nb\n", "a\nnew\nb\n", "a\nnew\nb changed\n")
    assert found == [(0, "a"), (1, "new"), (2, "b changed")]
    assert origins("a\nb\n", "a\n", "a\nb\n") == [(0, "a"), (2, "b")]
    blank_too = passages(["a\n\nb\n", "a\n\nb\n\nc\n\n"])
    assert list(blank_too) == [(0, ("a", "", "b", "")), (1, ("c", ""))]


@given(TEXTS)
def test_passages_are_the_newest_text_whole_in_order_and_differ_from_the_next(texts):
    found = list(passages(texts))
    newest = texts[-1] if texts else ""
    lines = [line for _, passage in found for line in passage]
    assert lines == (newest.removesuffix("\n").split("\n") if newest else [])
    assert all(one[0] != other[0] for one, other in pairwise(found))


def test_a_long_text_with_many_equal_lines_is_compared_quickly():
    first = "\n".join(f"- rule {number}\n" for number in range(2_000))
    began = time.process_time()
    found = [origin for origin, _ in passages([first, first.replace("50\n", "50!\n")])]
    assert (found, time.process_time() - began < 1) == ([0, 1] * 20 + [0], True)

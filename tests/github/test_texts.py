from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.github.client import clip_line, clip_text, same_text

LIMITS = st.integers(60, 200)


@given(st.text(max_size=400), LIMITS)
def test_a_text_fits_however_github_counts(text: str, limit: int) -> None:
    clipped = clip_text(text, limit)
    assert len(clipped.encode("utf-16-le")) // 2 <= limit


@given(st.text(max_size=400), LIMITS)
def test_a_line_is_one_and_fits(text: str, limit: int) -> None:
    line = clip_line(text, limit)
    assert len(line.splitlines()) <= 1
    assert len(line) <= limit


@given(st.text(max_size=50))
def test_a_short_text_stays_and_can_be_sent(text: str) -> None:
    assert clip_text(text, 200) == text


def test_half_of_a_character_can_be_sent() -> None:
    assert clip_text("a\ud83d", 100) == "a?"


def test_a_text_is_cut_at_the_end_of_a_line() -> None:
    head, _, notice = clip_text("first line\nsecond line\n" * 9, 100).partition("\n\n")
    assert head.splitlines() == ["first line", "second line"] * (len(head.splitlines()) // 2) + (
        ["first line"] * (len(head.splitlines()) % 2)
    )
    assert notice.startswith("(cut here")


def test_line_ends_and_margins_make_no_difference() -> None:
    assert same_text("a\r\nb", "a\nb\n")
    assert same_text(None, "")
    assert not same_text("a", "b")

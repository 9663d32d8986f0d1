from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers.base import REASON_CHARS, last_words, mismatch, one_line, sentence


@given(st.text(), st.lists(st.text(), min_size=1, max_size=30))
def test_reasons_are_short_and_on_one_line(text: str, texts: list[str]):
    for reason in (one_line(text), last_words(text), mismatch(texts, text), sentence(texts)):
        assert len(reason) <= REASON_CHARS
        assert len(reason.splitlines()) <= 1


def test_long_text_keeps_its_head_or_its_tail():
    text = "a" * 300 + "b" * 300
    assert (one_line(text)[:2], last_words(text)[-2:]) == ("aa", "bb")


def test_every_part_of_a_sentence_gets_room():
    assert all(letter * 50 in sentence([c * 500 for c in "abc"]) for letter in "abc")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers import base
from skillopt_ci.scorers.base import REASON_CHARS, brief, extract, last_words, sentence


@given(st.text(), st.lists(st.text(), min_size=1, max_size=30))
def test_reasons_are_short_and_on_one_line(text, texts):
    for reason in (brief(text), last_words(text), base.mismatch(texts, text), sentence(texts)):
        assert len(reason) <= REASON_CHARS
        assert len(reason.splitlines()) <= 1


def test_long_text_keeps_its_head_or_its_tail():
    text = "a" * 300 + "b" * 300
    assert (brief(text)[:2], last_words(text)[-2:]) == ("aa", "bb")
    assert all(letter * 50 in sentence([c * 500 for c in "abc"]) for letter in "abc")


PLAIN = st.text(st.characters(exclude_characters="<>`~", exclude_categories=["Cs"]))


@given(PLAIN, PLAIN, PLAIN)
def test_tagged_answer_is_found_whatever_stands_around_it(before, answer, after):
    assert extract(f"{before}<answer>{answer}</answer>{after}", "tag") == answer.strip()


@given(PLAIN, st.text("abc \n", min_size=1))
def test_fenced_block_is_found_whatever_stands_before_it(before, code):
    assert extract(f"{before}\n```python\n{code}\n```", "fence") == code.strip("\n")


@given(st.text())
def test_last_line_is_one_of_the_lines(response):
    assert extract(response, "last_line") in {part.strip() for part in response.splitlines()} | {""}


@given(st.text())
def test_every_way_of_extracting_takes_any_text(response):
    assert all(extract(response, how) is not None for how in ("tag", "last_line", "fence", "text"))


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer>1</answer> no: <ANSWER>2</Answer>", "2"),
        ("<answer>draft <answer>final</answer>", "final"),
        ("<answer>kept</answer> stray </answer>", "kept"),
        ("<answer>kept</answer> <answer>cut off", "kept"),
        ("<answer>two\nlines</answer>", "two\nlines"),
        ("<answer></answer>\nnothing", ""),
        ("no tag\nbut a last line \n\n", "but a last line"),
        ("", ""),
    ],
)
def test_tag(response, answer):
    assert extract(response, "tag") == answer


def test_tag_name_is_taken_literally():
    assert base.last_tagged("<axb>no</axb><a.b>yes</a.b>", "a.b") == "yes"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("```\none\n```\n```json\ntwo\n```\nthree", "two"),
        ("~~~\n```\ninner\n```\n~~~", "```\ninner\n```"),
        ("````\n```\nkept\n````", "```\nkept"),
        ("```py\nnever closed", "never closed"),
        ("- item\n  ```\n  a\n    b\n  ```", "a\n  b"),
        ("inline ```code``` only", "inline ```code``` only"),
        ("```code``` on its own line\nend", "```code``` on its own line\nend"),
    ],
)
def test_fence(response, answer):
    assert extract(response, "fence") == answer


def test_text_without_fence_has_no_fenced_block():
    assert base.last_fenced("nothing here") is None
    assert extract(" \n a\nb \n", "text") == "a\nb"

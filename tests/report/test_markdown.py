import re
from html import unescape

import pytest
from hostile import HOSTILE, problems, shown
from hypothesis import given
from hypothesis import strategies as st
from run_views import REPOSITORY, SHA

from skillopt_ci.report import markdown
from skillopt_ci.report.markdown import Links, block, block_quote, code, codes, cut, inline, size

FORMS = {
    "inline": inline,
    "code": code,
    "quote": block_quote,
    "block": block,
    "cell": lambda text: markdown.table(("a", "b"), [(inline(text), code(text))]),
    "summary": lambda text: markdown.details(f"<b>Step</b> {inline(text)}", inline(text)),
    "after a word": lambda text: f"see {inline(text)} there",
    "at the end of code": lambda text: f"- {code(text)}: {inline(text)}",
}

LETTERS = st.text(
    st.sampled_from("@#$:/\\`*_[]()<>!|~{}^&;'\"-+=.123abwhtpsGH \n\t\u200b\u202e\ud800é"),
    max_size=60,
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert(text):
    assert {name: found for name, form in FORMS.items() if (found := problems(form(text)))} == {}


@pytest.mark.parametrize("form", FORMS)
@given(text=st.one_of(LETTERS, st.text(max_size=200)))
def test_no_text_acts(form, text):
    assert problems(FORMS[form](text)) == []


@given(text=st.one_of(LETTERS, st.text(max_size=80)))
def test_a_reader_sees_what_was_written(text):
    pair = shown(inline(text)), markdown.single_line(text)
    seen, written = (re.sub("[` ]", "", one) for one in pair)
    assert seen == written


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("set `a_b` or `@c`", "set <code>a_b</code> or <code>@c</code>"),
        ("`` `quoted` `` and ```a``b```", "<code>`quoted`</code> and <code>a``b</code>"),
        ("one ` only, ``two", "one ` only, ``two"),
        ("`<b>` | `", "<code><b></code> | `"),
    ],
)
def test_code_spans_are_code(text, seen):
    assert unescape(inline(text)).replace("\u200b", "") == seen


def test_of_a_long_name_both_ends_are_shown():
    names = [f"{'very/deep/' * 20}{number}" for number in (1, 2)]
    assert len({code(name, 60) for name in names}) == 2
    assert all(len(shown(code(name, 60))) == 60 for name in names)


@given(text=st.text(max_size=300), limit=st.integers(1, 40))
def test_a_text_is_no_longer_than_asked(text, limit):
    assert len(shown(inline(text, limit))) <= limit


@pytest.mark.parametrize(
    "text", ["0.9750 is 0.15 above the current skill's", "a-b_c.d/e", "step 3 of 4, 12:30 o'clock"]
)
def test_plain_words_read_as_they_are(text):
    assert shown(inline(text)) == text


def test_a_block_keeps_its_first_column_in_a_fence_longer_than_any_inside():
    assert block(" kept\n-gone\n+new", "diff") == "```diff\n kept\n-gone\n+new\n```"
    assert block("a ````` b").startswith("``````\n")
    lines = block("\n".join(str(number) for number in range(100)), lines=10).split("\n")
    assert lines[10:] == ["9", "… 90 more lines", "```"]


def test_a_quotation_stays_one_however_many_paragraphs():
    assert re.findall(r"(?m)^[^>]", block_quote("one\n\n\ntwo\nthree")) == []


def test_names_beyond_the_limit_are_counted():
    assert codes("abcde", most=2) == "<code>a</code>, <code>b</code> and 3 more"
    assert codes(()) == "none"


def test_commits_are_linked_by_their_short_hash():
    assert Links(REPOSITORY).commit(SHA) == f"[{SHA[:7]}]({REPOSITORY}/commit/{SHA})"


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        (f"{REPOSITORY}/pull/1#discussion_r2", True),
        ("https://evil.example/", False),
        (f"{REPOSITORY}.evil.example/", False),
        (f"{REPOSITORY}/pull/1) [x](https://evil.example", False),
        (f"{REPOSITORY}/?q=<b>", False),
    ],
)
def test_an_address_from_a_record_is_linked_only_within_the_repository(address, linked):
    assert ("](" in Links(REPOSITORY).within(address, "ada")) is linked


def test_nothing_is_linked_without_an_address():
    links = Links()
    assert (links.commit(SHA), links.run("workflow run")) == (f"<code>{SHA[:7]}</code>", "")


def composed(count: int, limit: int) -> str:
    parts = [f"full {n} " + "x" * 400 for n in range(count)]
    return markdown.compose("head", parts, "tail", limit=limit)


def test_everything_is_told_in_full_while_there_is_room():
    assert composed(5, 60_000).count("full") == 5


def test_what_matters_most_keeps_its_words_longest():
    text = composed(9, 2_000)
    assert "full 0" in text
    assert "full 8" not in text
    assert "more before that" in composed(400, 1_500)


def test_a_section_that_is_too_large_keeps_its_summary_and_hides_no_other():
    large, small = (markdown.details(f"Step {n}", "x" * n) for n in (2_000, 20))
    text = markdown.compose("head", [large, small], "tail", limit=1_500)
    assert text.count("<details>") == text.count("</details>") == 2
    assert "<summary>Step 2000</summary>\n\nThis did not fit." in text
    assert small in text


def test_head_and_tail_stay():
    text = composed(400, 1_500)
    assert text.startswith("head\n")
    assert text.endswith("\ntail")


@given(count=st.integers(0, 300), limit=st.integers(800, 5_000))
def test_it_is_never_longer_than_the_limit(count, limit):
    assert size(composed(count, limit)) <= limit


@given(text=st.text(max_size=2_000), limit=st.integers(400, 900))
def test_a_cut_text_is_within_the_limit_in_bytes(text, limit):
    assert size(cut(text * 3, limit)) <= limit
    kept = cut(block(f"```\n{text * 3}", lines=900), limit).split("\n")
    assert size("\n".join(kept)) <= limit
    # its end is no part of the block
    assert kept.count(kept[0]) == 2


def test_a_text_that_fits_is_not_touched():
    assert cut("é" * 100, 200) == "é" * 100


def test_a_cut_table_says_how_many_rows_are_left_out():
    whole = markdown.cut_table(("a",), [("1",), ("2",)], "l", 2)
    assert whole == markdown.table(("a",), [("1",), ("2",)])
    assert markdown.cut_table(("a",), [("1",), ("2",)], "l", 1).endswith("<sub>and 1 more</sub>")

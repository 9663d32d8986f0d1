from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from skillopt_ci.messages import fenced

FENCE_LIKE = st.text(st.sampled_from("`~ \nab>#-*"), max_size=60)
COMMONMARK = MarkdownIt("commonmark")


@given(FENCE_LIKE)
def test_to_commonmark_the_whole_text_is_one_code_block(text):
    (block,) = COMMONMARK.parse(fenced(text))
    assert (block.type, block.content) == ("fence", f"{text}\n")


@given(FENCE_LIKE)
def test_what_follows_the_fence_is_outside_of_it(text):
    tokens = COMMONMARK.parse(f"{fenced(text)}\n\n# After\n")
    assert [token.type for token in tokens[:2]] == ["fence", "heading_open"]


def test_the_info_string_names_the_language():
    assert fenced("a: 1", "yaml") == "```yaml\na: 1\n```"

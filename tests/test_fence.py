from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from skillopt_ci.messages import fenced

FENCE_LIKE = st.text(st.sampled_from("`~ \nab>#-*"), max_size=60)
COMMONMARK = MarkdownIt("commonmark")


@given(FENCE_LIKE)
def test_to_commonmark_the_whole_text_is_one_code_block_and_what_follows_is_not(text):
    block, after, *_ = COMMONMARK.parse(f"{fenced(text)}\n\n# After\n")
    assert (block.type, block.content, after.type) == ("fence", f"{text}\n", "heading_open")


def test_the_info_string_names_the_language():
    assert fenced("a: 1", "yaml") == "```yaml\na: 1\n```"

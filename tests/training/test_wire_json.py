import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.training.replies import WireError, extract_json

words = st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(words, values, min_size=1, max_size=3)
prose = st.sampled_from(
    [
        "",
        "Here it is:\n",
        'Use {braces} and [lists], "quotes" and it\'s `{}`.\n',
        "```\ncode\n```\n",
    ]
)
fences = st.sampled_from(
    [("", ""), ("```json\n", "\n```"), ("```\n", "\n```\n"), ("```JSON ", "```")]
)
noise = st.lists(st.sampled_from(['{"a":', "{'a'", '"', "}", "[", "]", ",", "\\", "1", "x"])).map(
    "".join
)


def refused(text: str) -> str:
    with pytest.raises(WireError) as caught:
        extract_json(text)
    return caught.value.message


@given(objects, prose, fences, prose, st.sampled_from([None, 2]))
def test_an_object_is_found_whatever_stands_around_it(
    value: dict[str, object], before: str, fence: tuple[str, str], after: str, indent: int | None
) -> None:
    written = json.dumps(value, indent=indent, ensure_ascii=False)
    assert extract_json(before + fence[0] + written + fence[1] + "\n" + after) == value


@given(st.text() | noise)
def test_any_text_gives_an_object_or_a_wire_error(text: str) -> None:
    try:
        assert extract_json(text)
    except WireError:
        return


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "he said "hi" to me"}', {"a": 'he said "hi" to me'}),
        ('{"a": 1 // why\n}', {"a": 1}),
        ("{'a': 'b'}", {"a": "b"}),
        ('{"edits": [{"op": "x"}}, "reasoning": "r"}', {"edits": [{"op": "x"}]}),
        ('<think>Maybe {"a": 1}?</think>\n{"b": 2}', {"b": 2}),
        ('{"a": "```json\\n{\\"b\\": 2}\\n```"}', {"a": '```json\n{"b": 2}\n```'}),
    ],
)
def test_common_slips_are_mended(text: str, value: object) -> None:
    assert extract_json(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"edits": [{"op": "a"}, {"op": "b", "content": "half of', {"edits": [{"op": "a"}]}),
        ('```json\n{"selected_indices": [1, 2], "reason', {"selected_indices": [1, 2]}),
        ('{"reasoning": "r", "selected_indices": [1, 2', {"reasoning": "r"}),
        ('{"a": {"b": 1}', {"a": {"b": 1}}),
        ('{"a": 1, "b": "x\\', {"a": 1}),
    ],
)
def test_of_a_reply_cut_off_only_whole_parts_are_kept(text: str, value: object) -> None:
    assert extract_json(text) == value


@given(st.lists(st.text(), min_size=1, max_size=4), st.data())
def test_no_cut_off_text_is_ever_passed_on(contents: list[str], data: st.DataObject) -> None:
    written = json.dumps({"edits": [{"content": content} for content in contents]})
    kept = written[: data.draw(st.integers(0, len(written) - 1))]
    try:
        found = extract_json(kept)
    except WireError:
        return
    edits = found["edits"]
    assert isinstance(edits, list)
    assert [edit["content"] for edit in edits] == contents[: len(edits)]


@pytest.mark.parametrize(
    "text", ["", "I found nothing to change.", "{}", "[1, 2]", '{"a": "only half', '"{"']
)
def test_a_reply_without_an_object_is_refused(text: str) -> None:
    assert "no complete JSON object" in refused(text)


def test_two_different_objects_are_refused() -> None:
    assert refused('{"a": 1} or {"a": 2}') == (
        "The reply holds 2 JSON objects. Reply with exactly one."
    )


def test_the_same_object_twice_is_one() -> None:
    assert extract_json('{"a": 1}\nAgain:\n{"a": 1}') == {"a": 1}


def test_of_two_objects_the_only_fenced_one_counts() -> None:
    assert extract_json('Not {"a": 1} but\n```json\n{"a": 2}\n```') == {"a": 2}


def test_two_fenced_objects_are_refused() -> None:
    assert "2 JSON objects" in refused('```\n{"a": 1}\n```\n```\n{"a": 2}\n```')


@pytest.mark.parametrize(
    "part", ['{"a":', '{"a":[', '{"', '{"a":"}', '"', "\\", "```json\n", '{"a" ', "{'a':1} "]
)
def test_hostile_repetition_is_answered_quickly(part: str) -> None:
    started = time.process_time()
    with suppress(WireError):
        extract_json(part * 20_000)
    assert time.process_time() - started < 5

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.ledger.evidence import PatternRecord
from skillopt_ci.skill.edits import Edit
from skillopt_ci.skill.regions import SLOW_UPDATE
from skillopt_ci.training import replies
from skillopt_ci.training.replies import EDITS, WireError, extract_json, parse_analyst, parse_merge

words = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
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
fences = st.sampled_from([("", ""), ("```json\n", "\n```"), ("```\n", "\n```\n"), ("```J ", "```")])
noise = st.lists(st.sampled_from(['{"a":', "{'a'", '"', "}", "[", "]", ",", "\\", "1", "x"])).map(
    "".join
)


def refused(text: str) -> str:
    with pytest.raises(WireError) as caught:
        extract_json(text)
    return caught.value.message


@given(objects, prose, fences, prose, st.sampled_from([None, 2]))
def test_an_object_is_found_whatever_stands_around_it(value, before, fence, after, indent):
    written = json.dumps(value, indent=indent, ensure_ascii=False)
    assert extract_json(before + fence[0] + written + fence[1] + "\n" + after) == value


@given(st.text() | noise)
def test_any_text_gives_an_object_or_a_wire_error(text):
    try:
        assert extract_json(text)
    except WireError:
        return


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], // why\n }', {"a": [1, 2]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "he said "hi" to me"}', {"a": 'he said "hi" to me'}),
        (r'{"a": "caf\u00e9 \underline \x27b\x27",}', {"a": "café \\underline 'b'"}),
        ("{'a': 'b'}", {"a": "b"}),
        ('{"edits": [{"op": "x"}}, "reasoning": "r"}', {"edits": [{"op": "x"}]}),
        ('<think>Maybe {"a": 1}?</think>\n{"b": 2}', {"b": 2}),
        ('{"a": "```json\\n{\\"b\\": 2}\\n```"}', {"a": '```json\n{"b": 2}\n```'}),
    ],
)
def test_common_slips_are_mended(text, value):
    assert extract_json(text) == value


@given(st.lists(st.text(), min_size=1, max_size=4), st.data())
def test_no_cut_off_text_is_ever_passed_on(contents, data):
    written = json.dumps({"edits": [{"content": content} for content in contents]})
    kept = written[: data.draw(st.integers(0, len(written) - 1))]
    with pytest.raises(WireError):
        extract_json(kept)


@pytest.mark.parametrize(
    "text",
    [
        *("", "I found nothing to change.", "{}", "[1, 2]", '{"a": "only half', '"{"'),
        # quotes without escapes, where a repair would lose words or make keys of them
        *('{"a": [{"b": "say "c, d" first"}]}', '{"a": ""b", "c"", "d": 1}', '{"a": """b"""}'),
    ],
)
def test_a_reply_without_an_object_is_refused(text):
    assert "no complete JSON object" in refused(text)


def test_a_repair_does_not_read_a_reply_again_and_again():
    long = "“:" * 2_000  # after a key that stands twice, where a repair writes the text anew
    assert "no complete JSON object" in refused('{"a": [{"x": 1, x: 2}, ' + long + "]}")


@pytest.mark.parametrize("text", ['{"a": 1} or {"a": 2}', '```\n{"a": 1}\n```\n```\n{"a": 2}\n```'])
def test_two_different_objects_are_refused(text):
    assert refused(text) == "The reply holds 2 JSON objects. Reply with exactly one."


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": 1}\nAgain:\n{"a": 1}', 1), ('Not {"a": 1} but\n```json\n{"a": 2}\n```', 2)],
    ids=["the same twice", "the only fenced one"],
)
def test_extract_json_takes_the_object_that_is_meant(text, value):
    assert extract_json(text) == {"a": value}


@pytest.mark.parametrize(
    "part", ['{"a":', '{"a":[', '{"', '{"a":"}', '"', "\\", "```json\n", '{"a" ', "{'a':1} "]
)
def test_hostile_repetition_is_answered_quickly(part):
    started = time.process_time()
    with suppress(WireError):
        extract_json(part * 20_000)
    assert time.process_time() - started < 5


APPEND = {"op": "append", "content": "rule"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
)
keys = ["op", "target", "content", "support_count", "source_type", "merge_level", "other"]
fields = st.dictionaries(st.sampled_from(keys), json_values)
entries = fields.map(lambda entry: entry | APPEND) | objects | json_values
numbers = st.integers(-3, 12) | st.booleans() | st.floats() | st.text(max_size=3) | st.none()


def analyst(**parts: object) -> str:
    return json.dumps({"patch": {"reasoning": "why", "edits": [APPEND]}, **parts})


def merge(*edits: object) -> str:
    return json.dumps({"edits": edits})


def test_an_analysts_reply_is_read():
    failures = [{"failure_type": "units", "description": "Forgets units", "count": 2}]
    text = analyst(batch_size=3, failure_summary=failures)
    reply = parse_analyst(EDITS, text, "failure", shown=3)
    assert reply.patch.edits == (Edit("append", "", "rule", "failure", support_count=3),)
    assert reply.patch.reasoning == "why"
    assert reply.failure_patterns == (PatternRecord(description="units: Forgets units", count=2),)
    assert parse_analyst(EDITS, analyst(), "success", 1).patch.edits[0].source_type == "success"


@pytest.mark.parametrize("summary", [None, "x", [3, {}, {"count": 2}]])
def test_a_useless_failure_summary_does_no_harm(summary):
    reply = parse_analyst(EDITS, analyst(failure_summary=summary), "failure", shown=1)
    assert (reply.failure_patterns, len(reply.patch.edits)) == ((), 1)


@pytest.mark.parametrize(
    ("count", "read"), [("2", 2), (99, 4), (0, 1), (-1, 1), (True, 1), ("x", 1)]
)
def test_a_pattern_counts_from_one_to_the_trajectories_shown(count, read):
    text = analyst(failure_summary=[{"failure_type": "t", "count": count}])
    assert parse_analyst(EDITS, text, "failure", shown=4).failure_patterns[0].count == read


def test_a_reply_may_be_without_edits():
    assert parse_analyst(EDITS, '{"patch": {"edits": []}}', "failure", 2).patch.edits == ()


@pytest.mark.parametrize("text", ['{"patch": {"edits": [%s]}}', '{"edits": [%s]}'])
def test_edits_may_stand_under_patch_or_at_the_top(text):
    written = text % json.dumps(APPEND)
    assert parse_merge(EDITS, written) == parse_analyst(EDITS, written, "failure", shown=1).patch


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"support_count": "7", "source_type": "success", "merge_level": 2}, (7, "success", 2)),
        ({"support_count": 10**30}, (100_000, "failure", 0)),
        ({"source_type": "both", "support_count": "many"}, (1, "failure", 0)),
        ({}, (1, "failure", 0)),
    ],
)
def test_a_merged_edit_keeps_what_the_model_says_of_it(said, read):
    (edit,) = parse_merge(EDITS, merge({**APPEND, **said}), "failure").edits
    assert (edit.support_count, edit.source_type, edit.merge_level) == read


UNUSABLE = [
    3,
    {},
    {"op": " ", "content": "a"},
    {"op": 1, "content": "a"},
    {"op": "append", "content": ["a"]},
    {"op": "replace", "target": "a"},
    {"op": "replace", "target": "a", "content": None},
]


@pytest.mark.parametrize("entry", UNUSABLE)
def test_an_unusable_edit_is_dropped(entry):
    assert [edit.content for edit in parse_merge(EDITS, merge(entry, APPEND)).edits] == ["rule"]
    with pytest.raises(WireError, match="No entry of `edits` can be used; the first: "):
        parse_merge(EDITS, merge(entry))


def test_a_deletion_needs_no_content_and_unknown_operations_are_kept():
    text = merge({"op": "delete", "target": "a"}, {"op": " move ", "content": ""})
    edits = parse_merge(EDITS, text)
    assert [edit.op for edit in edits.edits] == ["delete", "move"]


def test_edit_text_holds_no_control_characters():
    entry = {"op": "replace", "target": "a\r\nb\x1b", "content": "\x00c\td\r\ud800\x85\n"}
    (edit,) = parse_merge(EDITS, merge(entry)).edits
    assert (edit.target, edit.content) == ("a\nb", "c\td\n\n")


@pytest.mark.parametrize(
    ("payload", "text", "message"),
    [
        (EDITS, '{"x": 1}', "The reply does not have the agreed shape: `patch`: Field required."),
        (EDITS, '{"patch": [1]}', "`patch`: Input should be a JSON object."),
        (EDITS, '{"patch": {"x": 1}}', "`patch.edits`: Field required."),
        (EDITS, '{"edits": {"op": "append"}}', "`patch.edits`: Input should be a valid list."),
        (EDITS, "no", "The reply holds no complete JSON object. Reply with exactly one."),
        (replies.SUGGESTIONS, '{"patch": {"edits": []}}', "revise_suggestions`: Field required."),
    ],
)
def test_the_error_tells_the_model_what_to_mend(payload, text, message):
    with pytest.raises(WireError) as caught:
        parse_merge(payload, text)
    assert caught.value.message.endswith(message)


@given(st.lists(entries, max_size=4))
def test_any_edits_are_read_or_refused(written):
    try:
        patch = parse_merge(EDITS, json.dumps({"edits": written}))
    except WireError:
        return
    assert len(patch.edits) <= len(written)
    assert all(edit.op and 1 <= edit.support_count <= 100_000 for edit in patch.edits)


def test_a_ranking_keeps_the_order_and_takes_no_truth_values():
    written = '{"selected_indices": [3, 0, 3, 1], "reasoning": "r"}'
    assert replies.parse_ranking(written, 4, limit=2) == ((3, 0), "r")
    written = '{"selected_indices": [true, 4, -1, null, "2", 1.0, 1.5, NaN, 1e999, "x"]}'
    assert replies.parse_ranking(written, 4, limit=9) == ((2, 1), "")


@pytest.mark.parametrize("chosen", ["[]", "[4, true]", "3", "null"])
def test_a_ranking_that_chooses_nothing_is_refused(chosen):
    with pytest.raises(WireError, match="selected_indices"):
        replies.parse_ranking(f'{{"selected_indices": {chosen}}}', 4, limit=2)


@given(st.lists(numbers), st.integers(1, 9), st.integers(1, 9))
def test_any_choice_is_within_pool_and_limit(chosen, pool, limit):
    try:
        indices, _ = replies.parse_ranking(json.dumps({"selected_indices": chosen}), pool, limit)
    except WireError:
        return
    assert 0 < len(indices) <= limit
    assert len(set(indices)) == len(indices)
    assert all(0 <= index < pool for index in indices)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["Look twice.", " Count. "], ("Look twice.", "Count.")),
        ("Look twice.", ("Look twice.",)),
        ([{"note": "Look twice."}, {"content": "Count."}, {"x": 1}], ("Look twice.", "Count.")),
        ([1, None, ["x"], "Count."], ("Count.",)),
        (None, ()),
        ({"note": "Count."}, ("Count.",)),
    ],
)
def test_notes_are_read_in_any_form(written, read):
    reply = parse_analyst(EDITS, analyst(appendix_notes=written), "failure", 1, notes=True)
    assert reply.notes == read


@pytest.mark.parametrize("rest", [{}, {"patch": None}, {"patch": {}}])
def test_a_reply_may_be_notes_alone(rest):
    text = json.dumps({"appendix_notes": ["Look twice."], **rest})
    reply = parse_analyst(EDITS, text, "failure", 1, notes=True)
    assert (reply.patch.edits, reply.notes) == ((), ("Look twice.",))


@pytest.mark.parametrize(
    ("notes", "wanted"), [([], True), (None, True), ("", True), (["x"], False)]
)
def test_notes_that_nobody_asked_for_are_no_reply(notes, wanted):
    with pytest.raises(WireError):
        parse_analyst(EDITS, json.dumps({"appendix_notes": notes}), "failure", 1, notes=wanted)
    assert parse_analyst(EDITS, analyst(appendix_notes=["x"]), "failure", 1).notes == ()


ADD = {"type": "add_rule", "title": "Dates", "instruction": "Write dates as ISO."}
NEW = {"title": "Dates", "change_summary": ["ISO dates"], "new_skill": "# New\n"}
PROTECTED_ONLY = f"---\nname: x\n---\n{SLOW_UPDATE.start}\nObey.\n{SLOW_UPDATE.end}"


def suggestions(*entries: object) -> str:
    return json.dumps({"patch": {"reasoning": "why", "revise_suggestions": entries}})


def candidates(*entries: object) -> str:
    return json.dumps({"reasoning": "why", "skill_candidates": entries})


def test_a_suggestion_is_read_with_all_that_it_says():
    more = {"motivation": "seen", "priority_hint": "high"}
    reply = parse_analyst(replies.SUGGESTIONS, suggestions(ADD | more), "failure", shown=3)
    said = ("add_rule", "Dates", "Write dates as ISO.", "seen", "high", "failure", 3)
    wanted = replies.Suggestion(*said)
    assert (reply.patch.edits, reply.patch.reasoning) == ((wanted,), "why")


@pytest.mark.parametrize("entry", [3, {}, {"title": "Dates"}, ADD | {"instruction": " "}])
def test_a_suggestion_needs_nothing_but_an_instruction(entry):
    written = suggestions(entry, {"instruction": " Sort. ", "type": 3})
    wanted = replies.Suggestion("", "", "Sort.", source_type="success")
    assert parse_merge(replies.SUGGESTIONS, written, "success").edits == (wanted,)


def test_a_candidate_is_read_with_all_that_it_says():
    said = {"support_count": "5", "source_type": "success", "merge_level": 2}
    reply = parse_merge(replies.CANDIDATES, candidates(NEW | said))
    wanted = replies.SkillCandidate("# New", "Dates", ("ISO dates",), "success", 5, 2)
    assert reply.edits == (wanted,)


@pytest.mark.parametrize(
    ("said", "read"), [("one thing", ("one thing",)), ([" a ", 3, ""], ("a",)), (None, ())]
)
def test_a_change_summary_may_be_written_in_several_ways(said, read):
    (candidate,) = parse_merge(replies.CANDIDATES, candidates(NEW | {"change_summary": said})).edits
    assert candidate.change_summary == read


@pytest.mark.parametrize("document", ["", " \n", None, 3, PROTECTED_ONLY])
def test_a_document_without_a_body_is_refused(document):
    with pytest.raises(WireError, match="No entry of `skill_candidates` can be used"):
        parse_merge(replies.CANDIDATES, candidates(NEW | {"new_skill": document}))

import json
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers.base import GraderError
from skillopt_ci.scorers.text import anls, normalized, same_json, token_f1

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@given(VALUES, VALUES)
def test_equality_is_symmetric_and_survives_a_round_trip(left, right):
    assert same_json(left, json.loads(json.dumps(left, sort_keys=True)))
    assert same_json(left, right) == same_json(right, left)


def test_schema_never_fetches_anything(grade):
    with pytest.raises(GraderError, match=r"refers to .*127\.0\.0\.1:1/schema.json"):
        grade("json", "{}", schema={"$ref": "http://127.0.0.1:1/schema.json"})


LONG = "a" * 80 + "!"


@pytest.mark.parametrize(
    ("schema", "answer", "solved"),
    [
        ({"pattern": "^(a|aa)+$"}, LONG, False),
        ({"pattern": "^(?=a)(a|aa)+$"}, LONG, False),
        ({"patternProperties": {"^(a|aa)+$": {"type": "null"}}}, {LONG: 1}, True),
        ({"additionalProperties": False, "patternProperties": {"^(a|aa)+$": {}}}, {LONG: 1}, False),
        ({"uniqueItems": True}, [1, True, [1], [True], "1", {"a": 1}, {"a": True}], True),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
    ],
)
def test_a_schema_means_what_it_says_and_is_decided_in_time(grade, schema, answer, solved):
    begin = time.process_time()
    assert grade("json", json.dumps(answer), schema=schema).hard == solved
    assert time.process_time() - begin < 5


def test_many_items_are_read_in_time(grade):
    answer = json.dumps([{"a": number} for number in range(20_000)])
    begin = time.process_time()
    assert grade("json", answer, schema={"uniqueItems": True}).hard == 1
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(("keys", "hard"), [({}, 1), ({"schema": {"items": {"$ref": "#"}}}, 0)])
def test_an_answer_may_be_nested_deeply_unless_there_is_a_schema(grade, keys, hard):
    answer = '[{"a": ' * 450 + "1" + "}]" * 450
    assert grade("json", answer, answer, **keys).hard == hard


@pytest.mark.parametrize("answer", ['{"a": "\\ud83d"}', '{"\\ud83d": 1}'])
def test_half_of_a_surrogate_pair_satisfies_no_schema(grade, answer):
    schema = {"properties": {"a": {"pattern": "."}}, "propertyNames": {"pattern": "."}}
    score = grade("json", answer, schema=schema)
    assert (score.hard, "half of a surrogate pair" in score.reason) == (0, True)


@given(st.text())
def test_normalisation_is_stable(text):
    once = normalized(text)
    assert normalized(once) == once or not once.strip()


@given(st.text(max_size=20), st.text(max_size=20), st.floats(0, 1))
def test_anls_is_symmetric_and_between_0_and_1(left, right, threshold):
    score = anls(left, right, threshold)
    assert (anls(right, left, threshold), anls(left, left, threshold)) == (score, 1)
    assert 0 <= score <= 1


ANLS = ("Hi  You", "hi you", 1), ("", "", 1), ("", "a", 0), ("abcd", "abxd", 0.75), ("ab", "ax", 0)
F1 = ("a big ox", "the ox", 2 / 3), ("", "", 1), ("", "ox", 0), ("ox", "", 0), ("cat", "ox", 0)


def test_anls_and_f1():
    assert [anls(left, right, 0.5) for left, right, _ in ANLS] == [score for *_, score in ANLS]
    found = [token_f1(answer, reference) for answer, reference, _ in F1]
    assert found == pytest.approx([score for *_, score in F1])


@pytest.mark.parametrize(
    ("kind", "keys", "response", "references", "hard"),
    [
        ("exact", {}, " a \n", ["b", "a"], 1),
        *(("exact", {}, "A", ["a"], 0), ("exact", {}, "", [""], 1)),
        *(("exact", {}, "a\nb", ["a\r\nb"], 1), ("exact", {}, "a\r\nb", ["a\r\nb"], 1)),
        ("contains", {}, "a\nb c", ["a\r\nb"], 1),
        ("normalized", {}, "The “Cat’s”! ‚「«x»」‘", ["cat's x"], 1),
        *(("normalized", {}, "cats", ["cat"], 0), ("normalized", {}, "", ["A"], 0)),
        *(("normalized", {}, "\ufeffca\u200bt", ["cat"], 1), ("json", {}, "\ufeff[1]", ["[1]"], 1)),
        *(("json", {}, '["\u200b"]', ['[""]'], 0), ("normalized", {}, "\ufeff+", ["+"], 1)),
        *(("normalized", {}, "a", ["A"], 1), ("normalized", {}, "A.", ["A"], 1)),
        *(("normalized", {}, "+", ["-"], 0), ("f1", {}, "the cat", ["Cat"], 1)),
        *(("anls", {}, "abc", ["xyz", "abc"], 1), ("anls", {}, "", ["abc"], 0)),
        ("anls", {"hard_at": 0.9}, "abcdefghiX", ["abcdefghij"], 1),
        ("json", {}, '{"a": 1, "b": [2]}', ['{"b": [2], "a": 1}'], 1),
        *(("json", {}, "[1, 2]", ["[2, 1]"], 0), ("json", {}, "1.0", ["1"], 1)),
        *(("json", {}, "true", ["1"], 0), ("json", {}, '{"a": true}', ['{"a": 1}'], 0)),
        *(("json", {}, "", ["null"], 0), ("json", {}, "NaN", ["null"], 0)),
        ("json", {}, "[" * 100_000, ["[]"], 0),
        ("json", {}, '{"a": 1} and more', ['{"a": 1}'], 0),
        ("json", {"schema": SCHEMA}, '{"a": 1}', [], 1),
        *(("json", {"schema": SCHEMA}, one, [], 0) for one in ('{"a": "1"}', "{}")),
        *(("f1", {}, "", ["cat"], 0), ("contains", {}, "one two", ["one", "two"], 1)),
        *(("regex", {"pattern": r"^\d+$"}, one, [], int(one == "12")) for one in ("12", "a\n12")),
        ("regex", {"pattern": r"^\d+$", "multiline": True}, "a\n12", [], 1),
        ("regex", {"pattern": "abc"}, "ABC", [], 0),
        ("regex", {"pattern": "abc", "ignore_case": True}, "ABC", [], 1),
        ("regex", {"pattern": "sorry", "negate": True}, "here", [], 1),
        ("regex", {"pattern": "sorry", "negate": True}, "sorry", [], 0),
        ("regex", {"pattern": "sorry", "negate": True}, " ", [], 0),
    ],
)
def test_hard_score(grade, kind, keys, response, references, hard):
    assert grade(kind, response, *references, **keys).hard == hard


@pytest.mark.parametrize(
    ("keys", "response", "hard", "soft"),
    [
        *(({"contains": ["a", "b"]}, "ab", 1, 1), ({"contains": ["a", "b"]}, "ax", 0, 0.5)),
        ({"contains": ["a", "b"], "match": "any"}, "ax", 1, 1),
        ({"contains": ["a", "b"], "match": "any"}, "x", 0, 0),
        ({"contains": ["A"]}, "a", 0, 0),
        ({"contains": ["STRASSE"], "ignore_case": True}, "straße", 1, 1),
        *(({"not_contains": ["bad"]}, "good", 1, 1), ({"not_contains": ["bad"]}, "", 0, 0)),
        ({"contains": ["a"], "not_contains": ["x"]}, "ax", 0, 0.5),
        ({"contains": ["a", "b"], "match": "any", "not_contains": ["x"]}, "x", 0, 0),
    ],
)
def test_contains(grade, keys, response, hard, soft):
    score = grade("contains", response, **keys)
    assert (score.hard, score.soft) == (hard, soft)


@pytest.mark.parametrize(
    "kind", ["exact", "normalized", "f1", "anls", "contains", "choice", "json", "number", "regex"]
)
@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_an_accent_may_be_a_character_of_its_own(grade, kind, forms):
    text = {"json": '"Café"', "number": "3 Cafés"}.get(kind, "Café")
    answer, reference = (unicodedata.normalize(form, text) for form in forms)
    keys = {
        "choice": {"choices": {"A": reference, "B": "Bar"}},
        "contains": {"contains": [reference]},
        "regex": {"pattern": unicodedata.normalize(forms[1], "Caf[é-ü]")},
    }
    assert grade(kind, answer, reference, **keys.get(kind, {})).hard


FENCED = {"schema": SCHEMA, "answer": "fence"}
EITHER = "expected '1' (or 1 other), got '3'"


@pytest.mark.parametrize(
    ("kind", "keys", "response", "references", "reason"),
    [
        (
            "contains",
            {"contains": ["a", "b"], "not_contains": ["x"]},
            "x",
            [],
            "lacks 'a' and 'b'; contains the forbidden 'x'",
        ),
        ("regex", {"pattern": r"\d+", "negate": True}, "no 12", [], "'12' must not occur"),
        ("json", FENCED, '```\n{"a": "1"}\n```', [], '$.a: "1" is not of type "integer"'),
        ("exact", {"answer": "tag"}, "<answer>3</answer>", ["1", "2"], EITHER),
    ],
)
def test_reason(grade, kind, keys, response, references, reason):
    score = grade(kind, response, *references, **keys)
    assert (score.hard, score.reason) == (0, reason)


def test_f1_and_anls_give_partial_credit(grade):
    score = grade("f1", "red cat", "dog", "blue cat")
    assert (score.hard, score.soft) == (0, 0.5)
    score = grade("anls", "abcdefghiX", "abcdefghij")
    assert (score.hard, score.soft, score.answer) == (0, 0.9, "abcdefghiX")
    assert score.reason == "expected 'abcdefghij', got 'abcdefghiX'; ANLS 0.90"


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_a_schema_s_unevaluated_properties_are_found_in_bounded_time(grade, draft):
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "unevaluatedProperties": False,
        "patternProperties": {"^(a+)+$": {}, "x*": {}},
    }
    assert grade("json", '{"b": 1}', schema=schema).hard == 1  # by an empty match
    schema["patternProperties"] = {"^(a+)+$": {}}
    assert grade("json", '{"%s!": 1}' % ("a" * 50_000), schema=schema).hard == 0

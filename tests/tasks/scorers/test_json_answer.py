import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.text import same_json

Grade = Callable[..., Score]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@given(VALUES)
def test_value_equals_itself_after_a_round_trip(value: object):
    assert same_json(value, json.loads(json.dumps(value, sort_keys=True)))


@given(VALUES, VALUES)
def test_equality_is_symmetric(left: object, right: object):
    assert same_json(left, right) == same_json(right, left)


@pytest.mark.parametrize(
    ("answer", "reference", "hard"),
    [
        ('{"a": 1, "b": [2]}', '{"b": [2], "a": 1}', 1),
        ("[1, 2]", "[2, 1]", 0),
        ("1.0", "1", 1),
        ("true", "1", 0),
        ('{"a": true}', '{"a": 1}', 0),
        ("", "null", 0),
        ("NaN", "null", 0),
        ("[" * 100_000, "[]", 0),
        ('{"a": 1} and more', '{"a": 1}', 0),
    ],
)
def test_equality(grade: Grade, answer: str, reference: str, hard: float):
    assert grade("json", answer, reference).hard == hard


@pytest.mark.parametrize(("answer", "hard"), [('{"a": 1}', 1), ('{"a": "1"}', 0), ("{}", 0)])
def test_schema(grade: Grade, answer: str, hard: float):
    assert grade("json", answer, schema=SCHEMA).hard == hard


def test_violation_says_where(grade: Grade):
    score = grade("json", '```\n{"a": "1"}\n```', schema=SCHEMA, answer="fence")
    assert score.reason == "$.a: '1' is not of type 'integer'"


def test_schema_never_fetches_anything(grade: Grade):
    with pytest.raises(GraderError, match="which is not in it"):
        grade("json", "{}", schema={"$ref": "http://127.0.0.1:1/schema.json"})

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.tasks.files import Problem, Record, SourceText, read_json, read_jsonl, read_source

Write = Callable[[str, str], Path]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def source(text: str) -> SourceText:
    feeds = tuple(i for i, char in enumerate(text) if char == "\n")
    return SourceText(Path("tasks.json"), text, feeds)


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5))
def test_every_record_and_key_of_an_array_is_on_its_line(values: list[dict[str, object]]):
    text = json.dumps(values, indent=1)
    records = [found for found in read_json(source(text)) if isinstance(found, Record)]
    assert [record.value for record in records] == values
    lines = text.split("\n")
    for record in records:
        assert lines[record.line - 1].startswith(" {")
        for key in record.value:
            assert lines[record.line_of(key) - 1].startswith(f"  {json.dumps(key)}:")


def test_data_array_keeps_its_lines():
    text = '{"meta": [1, {"data": []}],\n "data": [\n  {"id": 1},\n  {\n  "id": 2}]}'
    records = [found for found in read_json(source(text)) if isinstance(found, Record)]
    assert [(record.line, record.line_of("id")) for record in records] == [(3, 3), (4, 5)]


def test_mapping_of_records_names_them():
    text = '{"a": {"prompt": "x"},\n"b":\n{"prompt": "y"}}'
    records = [found for found in read_json(source(text)) if isinstance(found, Record)]
    assert [(record.name, record.line) for record in records] == [("a", 1), ("b", 3)]


def test_key_that_is_absent_is_blamed_on_the_record():
    (record,) = read_json(source('\n\n[{"a": 1}]'))
    assert isinstance(record, Record)
    assert record.line_of("prompt") == 3


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[{"a": 1},\n{"a" 1}]', 2, "invalid JSON: Expecting ':' delimiter"),
        ('[{"a": 1, "a": 2}]', None, "invalid JSON: key 'a' stands twice in one object"),
        ('[{"a": NaN}]', None, "invalid JSON: NaN is not a JSON number"),
        ("[" * 100_000, None, "invalid JSON: nested too deeply"),
        ("7", 1, "expected a JSON array or object of tasks"),
        ("[{},\n 5]", 2, "expected a JSON object for each task"),
        ("", 1, "invalid JSON: Expecting value"),
    ],
)
def test_what_is_no_list_of_records_is_a_problem(text: str, line: int | None, message: str):
    problems = [found for found in read_json(source(text)) if isinstance(found, Problem)]
    assert problems == [Problem(Path("tasks.json"), line, message)]


def test_jsonl_reports_each_bad_line_and_reads_on(write: Write):
    file = write("t.jsonl", '{"id": 1}\r\n\n{"id": }\n[]\n{"id": "\u2028"}\n')
    found = list(read_jsonl(read_source(file)))
    assert [getattr(item, "line", None) for item in found] == [1, 3, 4, 5]
    assert [isinstance(item, Record) for item in found] == [True, False, False, True]

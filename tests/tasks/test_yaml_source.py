from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.tasks.files import Problem, Record, read_source, read_yaml

Write = Callable[[str, str], Path]


def test_records_and_keys_know_their_lines(write: Write):
    file = write("t.yaml", "# tasks\n- id: a\n  prompt: x\n\n-\n  prompt: |\n    y\n  id: b\n")
    records = [found for found in read_yaml(read_source(file)) if isinstance(found, Record)]
    assert [(r.line, r.line_of("id"), r.line_of("prompt")) for r in records] == [
        (2, 2, 3),
        (6, 8, 6),
    ]


def test_only_what_json_has_is_more_than_text(write: Write):
    file = write("t.yaml", "- values: [2026-03-03, yes, 12:30, 007, 7, 1.5, true, null]")
    (record,) = read_yaml(read_source(file))
    assert isinstance(record, Record)
    assert record.value["values"] == ["2026-03-03", "yes", "12:30", "007", 7, 1.5, True, None]


def test_anchors_and_merge_keys_work(write: Write):
    file = write("t.yaml", "- &base {id: a, scorer: x}\n- <<: *base\n  id: b\n")
    records = [found for found in read_yaml(read_source(file)) if isinstance(found, Record)]
    assert records[1].value == {"id": "b", "scorer": "x"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- id: a\n  prompt: x\n  id: b\n", 3, "invalid YAML: key 'id' stands twice"),
        ("- id: [a\n- id: b\n", 2, "invalid YAML: expected ',' or ']', but got ':'"),
        ("id: a\n", 1, "expected a list of tasks"),
        ("- a: 1\n- text\n", 2, "expected a mapping for each task"),
        ("- 1: x\n", 1, "key 1 is not text; write it in quotes"),
        ("- a: 1\n---\n- b: 2\n", 2, "invalid YAML: but found another document"),
        ("- a: !!python/name:os.system\n", 1, "invalid YAML: could not determine a constructor"),
        ("- a: \x07\n", 1, "invalid YAML: special characters are not allowed"),
    ],
)
def test_what_is_no_list_of_mappings_is_a_problem(write: Write, text: str, line: int, message: str):
    found = list(read_yaml(read_source(write("t.yaml", text))))
    problem = next(item for item in found if isinstance(item, Problem))
    assert problem.line == line
    assert problem.message.startswith(message)


def test_empty_file_has_no_records(write: Write):
    assert list(read_yaml(read_source(write("t.yaml", "# nothing yet\n")))) == []

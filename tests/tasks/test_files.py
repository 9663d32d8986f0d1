import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.config.scorers import ExactScorer
from skillopt_ci.errors import TaskFileError
from skillopt_ci.messages import Message
from skillopt_ci.tasks.files import TaskProblem, TaskRecord, read_records, read_source
from skillopt_ci.tasks.records import to_task
from skillopt_ci.tasks.task import ComputerTask, Task, TaskFile, content_key, task_sha256

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def records(file: Path) -> list[TaskRecord]:
    return [found for found in read_records(file) if isinstance(found, TaskRecord)]


def test_read_source_drops_the_byte_order_mark(tmp_path):
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbf{}")
    assert read_source(tmp_path / "t") == "{}"
    (tmp_path / "t").write_bytes("ä\nb\n".encode() + b"c\xff")
    with pytest.raises(TaskFileError, match=r"t:3: byte 0xff is not UTF-8"):
        read_source(tmp_path / "t")


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5))
def test_json_records_know_their_lines(values):
    text = json.dumps(values, indent=1)
    with TemporaryDirectory() as folder:
        file = Path(folder, "tasks.json")
        file.write_text(text, encoding="utf-8")
        found = records(file)
    assert [record.value for record in found] == values
    lines = text.split("\n")
    for record in found:
        assert lines[record.line - 1].startswith(" {")


def test_json_data_array_keeps_its_lines(write):
    text = '{"meta": [1, {"data": []}],\n "data": [\n  {"id": 1},\n  {\n  "id": 2}]}'
    assert [record.line for record in records(write("t.json", text))] == [3, 4]
    found = records(write("t.json", '{"a": {"prompt": "x"},\n"b":\n{"prompt": "y"}}'))
    assert [(record.name, record.line) for record in found] == [("a", 1), ("b", 3)]


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("t.json", '[{"a": 1},\n{"a" 1}]', 2, "invalid JSON: Expecting ':' delimiter"),
        ("t.json", '[{"a": 1, "a": 2}]', None, "invalid JSON: key 'a' is repeated in one object"),
        ("t.json", '[{"a": NaN}]', None, "invalid JSON: NaN is not a JSON number"),
        ("t.json", "[" * 100_000, None, "invalid JSON: nested too deeply"),
        ("t.json", "7", 1, "expected a JSON array of tasks, or an object of named tasks"),
        ("t.json", '{"prompt": "x", "answer": "y"}', 1, "expected a JSON array of tasks, or an"),
        ("t.jsonl", '[\n  {"a": 1}\n]', None, "expected a task on each line; a file of one array"),
        ("t.json", "[{},\n 5]", 2, "expected a mapping for each task"),
        ("t.json", "", 1, "invalid JSON: Expecting value"),
        ("t.yaml", "- id: a\n  prompt: x\n  id: b\n", 3, "not valid YAML: the key 'id' is"),
        ("t.yaml", "- id: [a\n- id: b\n", 2, "not valid YAML: while parsing a flow sequence"),
        ("t.yaml", "id: a\n", 1, "expected a list of tasks"),
        ("t.yaml", "- a: 1\n- text\n", 2, "expected a mapping for each task"),
        ("t.yaml", "- a: 1\n---\n- b: 2\n", 2, "not valid YAML: expected a single document"),
        ("t.yaml", "- a: !!python/name:os.system\n", 1, "not valid YAML: the tag"),
        ("t.yaml", "- a: \x07\n", 1, "not valid YAML: special characters are not allowed"),
    ],
)
def test_read_records_says_what_is_wrong_and_where(write, name, text, line, message):
    found = read_records(write(name, text))
    (problem,) = (one for one in found if isinstance(one, TaskProblem))
    assert problem.line == line
    assert problem.message.startswith(message)


def test_json_lines_end_with_line_feeds_alone_and_bad_ones_are_skipped(write):
    found = list(read_records(write("t.jsonl", '{"id": 1}\r\n \n{"id": }\n[]\n{"id": "\u2028"}\n')))
    assert [getattr(item, "line", None) for item in found] == [1, 3, 4, 5]
    assert [isinstance(item, TaskRecord) for item in found] == [True, False, False, True]
    found = list(read_records(write("t.json", '{"a": "}"}\r\n\n{"a": {}}\n{"a": }\n')))
    assert [getattr(item, "value", None) for item in found] == [{"a": "}"}, {"a": {}}, None]


def test_yaml_records_know_their_lines(write):
    file = write("t.yaml", "# tasks\n- id: a\n  prompt: x\n\n-\n  prompt: |\n    y\n  id: b\n")
    assert [record.line for record in records(file)] == [2, 6]


def test_yaml_types_only_what_json_has(write):
    file = write("t.yaml", "- values: [2026-03-03, yes, 12:30, 007, 7, 1.50, true, null]")
    (record,) = records(file)
    assert record.value["values"] == ["2026-03-03", "yes", "12:30", "007", 7, 1.5, True, None]


@pytest.mark.parametrize("name", ["t.yaml", "t.json", "t.jsonl"])
def test_numbers_of_references_keep_their_text(write, name):
    row = '{"id": 1.10, "prompt": "x", "references": [3.10, 0.00001, 1e3], "metadata": {"n": 2.50}}'
    (record,) = records(write(name, row if name == "t.jsonl" else f"[{row}]"))
    task = to_task(record)
    assert isinstance(task, Task)
    assert (task.id, task.references) == ("1.10", ("3.10", "0.00001", "1e3"))
    assert json.dumps(task.metadata) == '{"n": 2.5}'


def test_yaml_keys_are_text_and_merge_keys_work(write):
    found = records(write("t.yaml", "- &base {1: x, metadata: {2: y}}\n- <<: *base\n  1: z\n"))
    assert found[0].value == {"1": "x", "metadata": {"2": "y"}}
    assert found[1].value == {"1": "z", "metadata": {"2": "y"}}
    assert records(write("t.yaml", "# nothing yet\n")) == []


def test_csv_records_have_the_headers_keys_and_their_lines(write):
    long = "x" * 200_000
    file = write("t.csv", f'id,question,answer\r\na,"one\ntwo",x\r\n\r\nb,three,\r\nc,{long}')
    first, second, third = records(file)
    assert third.value["question"] == long
    assert first.value == {"id": "a", "question": "one\ntwo", "answer": "x"}
    assert second.value == {"id": "b", "question": "three"}
    assert (first.line, second.line) == (2, 5)


@pytest.mark.parametrize(("first", "mark"), [("", ";"), ("sep=;\r\n", ";"), ("", "\t")])
def test_csv_of_a_spreadsheet_may_have_other_delimiters(write, first, mark):
    lines = (f"\ufeff{first}id;prompt, in full;references", 'a;"one; two";3,5')
    file = write("t.csv", "\r\n".join(lines).replace(";", mark))
    value = {"id": "a", "prompt, in full": f"one{mark} two", "references": "3,5"}
    assert [one.value for one in records(file)] == [value]


@pytest.mark.parametrize("quote", ['"', ""])
def test_marks_inside_a_name_of_a_csv_are_no_delimiters(write, quote):
    file = write("t.csv", f"id,{quote}how; why; or; if{quote},references\n1;2;3;4\na,b,c\nd,e,f\n")
    value = {"id": "a", "how; why; or; if": "b", "references": "c"}
    assert [one.value for one in records(file)][1] == value


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("id,question,id\n", 1, "the header names a column twice"),
        ("id,question\na,b,c\n", 2, "more cells than the header has"),
        ('id,question\na,"b\n', 2, "invalid CSV: unexpected end of data"),
    ],
)
def test_csv_that_cannot_be_read_is_refused(write, text, line, fault):
    (found,) = read_records(write("t.csv", text))
    assert isinstance(found, TaskProblem)
    assert (found.line, found.message) == (line, fault)


def test_content_key_ignores_case_space_unicode_variants_and_names_of_files(make_task):
    left = make_task("a", prompt="Straße  ﬁne\n", files=(TaskFile("a", "text"),))
    right = make_task("b", prompt=" STRASSE FINE", files=(TaskFile("b", "text"),))
    assert content_key(left) == content_key(right)


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "other"},
        {"messages": (Message("system", "s"), Message("user", "What is it?"))},
        {"files": (TaskFile("a", "text"),)},
    ],
)
def test_content_key_sees_what_is_asked(make_task, changed):
    assert content_key(make_task(**changed)) != content_key(make_task())


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "u"},
        {"prompt": "what is it?"},
        {"task_type": "x"},
        {"metadata": {"a": 1}},
        {"files": (TaskFile("a", "text"),)},
        {"scorer": ExactScorer(type="exact")},
    ],
)
def test_task_sha256_sees_every_field(make_task, changed):
    assert task_sha256(make_task(**changed)) != task_sha256(make_task())


def test_task_sha256_sees_the_order_of_references(make_task):
    assert task_sha256(make_task("a", "b")) != task_sha256(make_task("b", "a"))
    task = make_task("a")
    assert task_sha256(replace(task, file=Path("x"), line=7)) == task_sha256(task)


def test_another_workspace_asks_something_else(make_task):
    def at(text: str) -> Task:
        return make_task(computer=ComputerTask(ComputerBlock(), (TaskFile("a", text),)))

    assert content_key(at("x")) != content_key(at("y"))
    assert content_key(at("x")) != content_key(make_task())
    assert task_sha256(at("x")) != task_sha256(at("y"))


@pytest.mark.parametrize("block", [{"network": "open"}, {"setup": ("true",)}, {"image": "i"}])
def test_what_a_computer_is_given_changes_the_task(make_task, block):
    plain, other = (ComputerTask(ComputerBlock(**more)) for more in ({}, block))
    assert task_sha256(make_task(computer=plain)) != task_sha256(make_task(computer=other))

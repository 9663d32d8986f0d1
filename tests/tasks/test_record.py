from functools import partial
from pathlib import Path

import pytest

from skillopt_ci.config.scorers import RegexScorer
from skillopt_ci.messages import Message
from skillopt_ci.tasks.files import Record
from skillopt_ci.tasks.records import to_task
from skillopt_ci.tasks.task import Task, TaskFile


def line_of(lines: dict[str, int], key: str) -> int:
    return lines.get(key, 1)


def record(value: dict[str, object], name: str | None = None) -> Record:
    lines = {key: number for number, key in enumerate(value, start=2)}
    return Record(value, Path("t.jsonl"), 1, partial(line_of, lines), name)


def task(**value: object) -> Task:
    made = to_task(record({"id": "t", "prompt": "ask", **value}))
    assert isinstance(made, Task)
    return made


def messages(**value: object) -> list[str]:
    problems = to_task(record({"id": "t", "prompt": "ask", **value}))
    assert isinstance(problems, list)
    return [problem.message for problem in problems]


def test_every_key_reaches_the_task():
    made = task(
        references=["a", "b"],
        reference_text="why",
        task_type="kind",
        files={"f": "text"},
        metadata={"k": [1]},
        scorer={"type": "regex", "pattern": "x"},
    )
    assert made == Task(
        "t",
        (Message("user", "ask"),),
        ("a", "b"),
        "kind",
        (TaskFile("f", "text"),),
        {"k": [1]},
        RegexScorer(type="regex", pattern="x"),
        Path("t.jsonl"),
        1,
        "why",
    )


def test_messages_replace_the_prompt():
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    made = task(prompt=None, messages=turns)
    assert made.messages == (Message("system", "s"), Message("user", "u"))


def test_numbers_become_text_as_id_and_reference():
    made = task(id=7, references=[1, 2.5])
    assert (made.id, made.references) == ("7", ("1", "2.5"))


def test_single_reference_needs_no_list():
    assert task(references="a").references == ("a",)


def test_name_of_the_record_is_its_id_unless_it_has_one():
    made = [to_task(record({"prompt": "x", **more}, name="key")) for more in ({}, {"id": "own"})]
    assert [m.id for m in made if isinstance(m, Task)] == ["key", "own"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"promt": "x"}, "promt: unknown key; did you mean 'prompt'?"),
        ({"answer": "x"}, "answer: unknown key; did you mean 'references'?"),
        ({"prompt": 4}, "prompt: expected text, got 4"),
        ({"prompt": " "}, "prompt: must not be blank"),
        ({"prompt": None}, "a task needs `prompt` or `messages`, and not both"),
        ({"messages": []}, "a task needs `prompt` or `messages`, and not both"),
        ({"prompt": None, "messages": []}, "`messages` must end with a message of the user"),
        ({"id": ""}, "id: must not be empty"),
        ({"id": "a\nb"}, "id: 'a\\nb' holds a control character"),
        ({"id": True}, "id: expected text, got True"),
        ({"id": "x" * 201}, "id: String should have at most 200 characters"),
        ({"references": [None]}, "references[0]: expected text, got None"),
        ({"references": {"a": 1}}, "references[0]: expected text, got {'a': 1}"),
        ({"metadata": [1]}, "metadata: expected a mapping, got [1]"),
        ({"files": 3}, "files: expected a list of paths, or a mapping from names to their text"),
        ({"files": ["../x"]}, "files: '../x' is not a relative path"),
        ({"scorer": {"type": "exat"}}, "scorer: 'exat' is not known; did you mean 'exact'?"),
        ({"scorer": {}}, "scorer: `type` is missing"),
        ({"prompt": "\ud800"}, "half of a surrogate pair is not a character"),
    ],
)
def test_bad_value_is_explained(value: dict[str, object], message: str):
    assert messages(**value)[0].startswith(message)


def test_nested_scorer_is_located_and_its_own_keys_are_offered():
    parts = [{"type": "regex", "patern": "x", "pattern": "y"}, {"type": "exact", "answer": "tga"}]
    assert messages(scorer={"type": "all", "of": parts}) == [
        "scorer.of[0].patern: unknown key; did you mean 'pattern'?",
        "scorer.of[1].answer: 'tga' is not known; did you mean 'tag'?",
    ]


def test_schema_is_offered_under_the_name_that_people_write():
    (message,) = messages(scorer={"type": "json", "shema": {}})
    assert message == "scorer.shema: unknown key; did you mean 'schema'?"


def test_message_with_an_unknown_key_is_explained():
    turns = [{"role": "user", "content": "u", "contents": "v"}]
    (message,) = messages(prompt=None, messages=turns)
    assert message == "messages[0].contents: unknown key; did you mean 'content'?"


def test_problem_points_at_the_line_of_its_key():
    problems = to_task(record({"id": "t", "prompt": "ask", "metadata": 1}))
    assert isinstance(problems, list)
    assert [problem.line for problem in problems] == [4]


def test_data_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    assert messages(metadata={"loop": loop}) == [
        "cannot be written as JSON: Circular reference detected"
    ]


def test_a_computer_block_reaches_the_task():
    block = {
        "files": {"src/a.py": "x = 1\n"},
        "setup": ["git init -q", ["touch", "b"]],
        "submission": {"command": ["test", "-e", "out"]},
        "network": "none",
        "limits": {"steps": 3},
    }
    made = task(computer=block)
    assert made.computer is not None
    assert made.computer.files == (TaskFile("src/a.py", "x = 1\n"),)
    assert made.computer.block.setup == (("sh", "-c", "git init -q"), ("touch", "b"))
    assert made.computer.block.limits is not None
    assert made.computer.block.limits.named() == {"steps": 3}


@pytest.mark.parametrize(
    ("computer", "complaint"),
    [
        ({"setpu": []}, "computer.setpu: unknown key; did you mean 'setup'?"),
        ({"limits": {"step": 1}}, "computer.limits.step: unknown key; did you mean 'steps'?"),
        ({"network": "some"}, "computer.network: 'some' is not known"),
        ({"files": {"../x": ""}}, "computer: '../x' is not a relative path"),
        ({"setup": [[]]}, "computer.setup[0]"),
        ({"limits": {"steps": 0}}, "computer.limits.steps"),
    ],
)
def test_a_mistake_in_a_computer_block_is_told(computer: dict[str, object], complaint: str):
    (told,) = messages(computer=computer)
    assert complaint in told


def test_a_computer_scorer_has_one_way_to_grade():
    (told,) = messages(scorer={"type": "computer"})
    assert "give `command` or `report`" in told
    told = messages(scorer={"type": "computer", "report": {"comand": "x"}})
    assert any("did you mean 'command'?" in one for one in told)

from base64 import b64decode
from pathlib import Path

import pytest

from skillopt_ci.config.scorers import RegexScorer
from skillopt_ci.errors import TaskFileError
from skillopt_ci.messages import Message
from skillopt_ci.tasks import records
from skillopt_ci.tasks.files import TaskRecord
from skillopt_ci.tasks.loading import load_tasks
from skillopt_ci.tasks.records import from_skillopt, task_files, task_images, to_task
from skillopt_ci.tasks.task import Task, TaskFile, content_key, task_sha256


def record(value: dict[str, object], name: str | None = None) -> TaskRecord:
    return TaskRecord(value, Path("t.jsonl"), 1, name)


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
    made = task(id=7, references=[1, 2.5])
    assert (made.id, made.references) == ("7", ("1", "2.5"))
    assert task(references="a").references == ("a",)


def test_name_of_the_record_is_its_id_unless_it_has_one():
    made = [to_task(record({"prompt": "x", **more}, name="key")) for more in ({}, {"id": "own"})]
    assert [m.id for m in made if isinstance(m, Task)] == ["key", "own"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"promt": "x"}, "promt: unknown key; did you mean 'prompt'?"),
        ({"answer": "x"}, "answer: unknown key; did you mean references?"),
        ({"prompt": 4}, "prompt: expected text, found 4"),
        ({"prompt": " "}, "prompt: must not be blank"),
        ({"prompt": None}, "a task needs `prompt` or `messages`, and not both"),
        ({"messages": []}, "a task needs `prompt` or `messages`, and not both"),
        ({"prompt": None, "messages": []}, "`messages` must end with a message of the user"),
        ({"id": ""}, "id: must not be blank"),
        ({"id": "a\nb"}, "id: 'a\\nb' holds a control character"),
        ({"id": True}, "id: expected text, found true"),
        ({"id": "x" * 201}, "id: expected at most 200 characters, found 'xxx"),
        ({"references": [None]}, "references[0]: expected text, found nothing"),
        ({"references": {"a": 1}}, "references[0]: expected text, found a mapping"),
        ({"metadata": [1]}, "metadata: expected a mapping, found a list"),
        ({"scorer": "f1"}, "scorer: expected a mapping such as {type: exact}, found 'f1'"),
        ({"files": 3}, "files: expected a list of paths, or a mapping from names to their text"),
        ({"files": ["../x"]}, "files: '../x' is not a relative path"),
        ({"scorer": {"type": "exat"}}, "scorer.type: 'exat' is not one of exact, "),
        ({"scorer": {}}, "scorer.type: missing: one of exact, "),
        ({"prompt": "\ud800"}, "half of a surrogate pair is no character"),
        ({"scorer": {"type": "json", "shema": {}}}, "scorer.shema: unknown key; did you mean 'sch"),
        (
            {"prompt": None, "messages": [{"role": "user", "content": "u", "contents": "v"}]},
            "messages[0].contents: unknown key; did you mean 'content'?",
        ),
        ({"scorer": {"type": "computer"}}, "scorer: give `command` or `report`"),
        (
            {"scorer": {"type": "computer", "report": {"comand": "x"}}},
            "scorer.report.comand: unknown key; did you mean 'command'?",
        ),
        ({"computer": {"setpu": []}}, "computer.setpu: unknown key; did you mean 'setup'?"),
        ({"computer": {"limits": {"step": 1}}}, "computer.limits.step: unknown key; did you mean"),
        ({"computer": {"network": "some"}}, "computer.network: 'some' is not one of none, open"),
        ({"computer": {"files": {"../x": ""}}}, "computer: '../x' is not a relative path"),
        ({"computer": {"setup": [[]]}}, "computer.setup[0]"),
        ({"computer": {"artifacts": ["../x"]}}, "computer.artifacts[0]: '../x' is not a path ins"),
        ({"computer": {"limits": {"steps": 0}}}, "computer.limits.steps"),
    ],
)
def test_bad_value_is_explained(value, message):
    assert any(told.startswith(message) for told in messages(**value))


def test_nested_scorer_is_located_and_its_own_keys_are_offered():
    parts = [{"type": "regex", "patern": "x", "pattern": "y"}, {"type": "exact", "answer": "tga"}]
    assert messages(scorer={"type": "all", "of": parts}) == [
        "scorer.of[0].patern: unknown key; did you mean 'pattern'?",
        "scorer.of[1].answer: 'tga' is not one of tag, last_line, fence, text; did you mean 'tag'?",
    ]


def test_data_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    told = messages(metadata={"loop": loop})
    assert told == ["cannot be written as JSON: Circular reference detected"]


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
    assert made.computer.block.limits.model_dump(exclude_none=True) == {"steps": 3}


def test_listed_files_are_read_from_the_folder(tmp_path, write):
    write("sub/a.txt", "ä")
    assert task_files(["./sub//a.txt"], tmp_path) == (TaskFile("sub/a.txt", "ä"),)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "", ".", "a\\b", "a\nb"])
def test_name_that_could_leave_the_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="relative path"):
        task_files({name: "text"}, tmp_path)


def test_link_out_of_the_folder_is_refused(tmp_path, write):
    write("secret", "x")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="leads out"):
        task_files(["link"], tmp_path / "tasks")


@pytest.mark.parametrize("read", [task_files, task_images])
def test_missing_file_is_refused(tmp_path, read):
    with pytest.raises(TaskFileError, match=r"nope.png: cannot be read: No such file"):
        read(["nope.png"], tmp_path)


@pytest.mark.parametrize(
    ("names", "message"), [(("a", "./a"), "stands twice"), (("a", "a/b"), "the folder of 'a/b'")]
)
def test_names_that_exclude_each_other_are_refused(tmp_path, names, message):
    with pytest.raises(ValueError, match=message):
        task_files(dict.fromkeys(names, ""), tmp_path)


PNG = b"\x89PNG\r\n\x1a\n rest"
KINDS = {
    "a.png": (PNG, "image/png"),
    "a.jpg": (b"\xff\xd8\xff\xe0 rest", "image/jpeg"),
    "a.gif": (b"GIF89a rest", "image/gif"),
    "a.webp": (b"RIFF\x00\x00\x00\x00WEBP rest", "image/webp"),
}


def put(folder: Path, name: str, content: bytes = PNG) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def write_record(folder: Path, text: str) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text(text + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_is_known_by_its_content(tmp_path, name):
    content, kind = KINDS[name]
    put(tmp_path, "misnamed.png", content)
    (found,) = task_images(["misnamed.png"], tmp_path)
    assert (found.name, found.image.media_type) == ("misnamed.png", kind)
    assert b64decode(found.image.data) == content
    assert len(found.sha256) == 64


@pytest.mark.parametrize("content", [b"", b"<svg/>", b"%PDF-1.7", b"RIFF0000WAVE"])
def test_what_is_no_picture_is_refused(tmp_path, content):
    put(tmp_path, "a.png", content)
    with pytest.raises(TaskFileError, match="is not a PNG, JPEG, WebP or GIF picture"):
        task_images(["a.png"], tmp_path)


def test_what_is_too_large_is_refused_unread(tmp_path, monkeypatch):
    put(tmp_path, "a.png")
    monkeypatch.setattr(records, "MOST_BYTES", 5)
    with pytest.raises(TaskFileError, match="bytes are more than 5"):
        task_images(["a.png"], tmp_path)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["../a.png"], "relative path"),
        (["a.png", "./a.png"], "stands twice"),
        ([f"{number}.png" for number in range(21)], "21 pictures are more than the 20"),
    ],
)
def test_names_are_held_to_the_rules_of_files(tmp_path, names, words):
    put(tmp_path, "a.png")
    with pytest.raises(ValueError, match=words):
        task_images(names, tmp_path)


def test_a_task_names_them_among_its_files_or_apart(tmp_path):
    put(tmp_path, "a.png")
    put(tmp_path, "sub/b.JPG", KINDS["a.jpg"][0])
    (tmp_path / "notes.txt").write_text("text", encoding="utf-8")
    line = '{"id": "t", "prompt": "p", "files": ["notes.txt", "a.png"], "images": ["sub/b.JPG"]}'
    file = write_record(tmp_path, line)
    (task,), _ = load_tasks(file)
    assert [one.name for one in task.files] == ["notes.txt"]
    assert [one.name for one in task.images] == ["a.png", "sub/b.JPG"]


@pytest.mark.parametrize("shown", ['"q", "image_path": "scan.png"', '"q document_path: scan.png"'])
def test_an_item_of_skillopt_s_shows_its_picture(tmp_path, shown):
    put(tmp_path, "scan.png")
    file = write_record(tmp_path, f'{{"id": "t", "answer": "a", "question": {shown}}}')
    (task,), _ = load_tasks(file)
    assert [one.name for one in task.images] == ["scan.png"]
    assert "document_path" not in task.messages[-1].content
    assert "image_path" not in task.metadata
    file = write_record(tmp_path, '{"id": "t", "prompt": "p", "images": ["gone.png"]}')
    tasks, (problem,) = load_tasks(file)
    assert (tasks, problem.line) == ((), 1)
    assert problem.message.startswith("images: ")
    assert "gone.png" in problem.message


def test_another_picture_makes_another_task(tmp_path):
    file = write_record(tmp_path, '{"id": "t", "prompt": "p", "images": ["a.png"]}')
    put(tmp_path, "a.png")
    (before,), _ = load_tasks(file)
    put(tmp_path, "a.png", PNG + b"!")
    (after,), _ = load_tasks(file)
    (bare,), _ = load_tasks(write_record(tmp_path, '{"id": "t", "prompt": "p"}'))
    assert len({task_sha256(task) for task in (before, after, bare)}) == 3
    assert len({content_key(task) for task in (before, after, bare)}) == 3


@pytest.mark.parametrize("key", ["references", "reference", "answers", "answer"])
def test_references_have_many_names(key):
    assert from_skillopt({"question": "q", key: "x"})["references"] == "x"


def test_context_keeps_the_leading_documents_that_fit():
    context = "[DOC] " + "a" * 3000 + "[DOC] " + "b" * 2000 + "[DOC] " + "c" * 2000
    prompt = str(from_skillopt({"question": "q", "context": context})["prompt"])
    assert "b" * 2000 in prompt
    assert "c" not in prompt.partition("## Question")[0].removeprefix("## Context")


def test_document_that_ends_exactly_at_the_limit_is_kept():
    first = "[DOC]" + "a" * 5995
    prompt = str(from_skillopt({"question": "q", "context": first + "[DOC] b"})["prompt"])
    assert prompt == f"## Context\n{first}\n\n## Question\nq"
    prompt = str(from_skillopt({"question": "q", "context": "[DOC]" + "a" * 7000})["prompt"])
    assert "a" * 5995 + "...[truncated]\n" in prompt


@pytest.mark.parametrize(
    "choices",
    [["x", "y"], {"A": "x", "B": "y"}, [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]],
)
def test_choices_are_shown_and_kept_for_the_scorer(choices):
    right = {"label": "B", "text": "y"}
    item = {"question": "q", "choices": choices, "correct_choice": right, "k": "v"}
    entry = from_skillopt(item)
    assert entry["prompt"] == "## Question\nq\n\n## Choices\nA. x\nB. y"
    kept = {"k": "v", "choices": {"A": "x", "B": "y"}}
    assert (entry["references"], entry["metadata"]) == ("B", kept)


def item_task(**value: object) -> Task:
    made = to_task(record(value))
    assert isinstance(made, Task), made
    return made


OFFICEQA = {"question": "How much?", "ground_truth": "12", "category": "lookup", "topic": ""}
DOCVQA = {"question": "What?", "answer": "['12', 'twelve']", "topic": "form", "image_path": ""}
SHEET = {"instruction": "Sum.", "instruction_type": "Cell-Level Manipulation", "answer": "12"}
THEOREM = {"month": "2026", "no": 3, "theorem_type": ["bound", "other"]}
MCQ = {
    "question": "Which bound is sharp?",
    "choices": [{"label": "A", "text": "1"}, {"label": "B", "text": "2"}],
    "correct_choice": {"label": "B", "text": "2"},
}


@pytest.mark.parametrize(
    ("item", "id_", "kind", "references", "said"),
    [
        ({"uid": "a", **OFFICEQA}, "a", "lookup", ("12",), "How much?"),
        ({"uid": "b", "id": "a", "task_type": "t", **OFFICEQA}, "a", "t", ("12",), "How much?"),
        ({"questionId": "a", **DOCVQA}, "a", "form", ("12", "twelve"), "What?"),
        ({"id": "a", **DOCVQA}, "a", "form", ("12", "twelve"), "What?"),
        ({**THEOREM, "mcq": MCQ}, "2026:3", "bound", ("B",), "## Choices\nA. 1\nB. 2"),
        ({**THEOREM, **MCQ}, "2026:3", "bound", ("B",), "## Choices\nA. 1\nB. 2"),
        ({"id": "a", **THEOREM, **MCQ}, "a", "bound", ("B",), "Which bound is sharp?"),
        ({"id": "a", **SHEET}, "a", "Cell-Level Manipulation", ("12",), "Sum."),
        ({"uid": "a", "question": "Why?", "answers": ["a"]}, "a", "", ("a",), "Why?"),
    ],
)
def test_the_parts_of_a_benchmarks_item_go_where_they_belong(item, id_, kind, references, said):
    task = item_task(**item)
    assert (task.id, task.task_type, task.references) == (id_, kind, references)
    assert said in task.messages[0].content


@pytest.mark.parametrize("key", ["question", "instruction"])
def test_an_item_without_an_answer_is_a_task(key):
    assert item_task(id="a", **{key: "What is it?"}).references == ()


@pytest.mark.parametrize(
    "answer",
    [
        *({"answers": ["a", "b"]}, [{"text": "a"}, {"value": "b"}]),
        *({"ground_truth": "['a', 'b']"}, '["a", "b"]', "['a'\n 'b']"),
        {"aliases": ["b"], "value": "a"},
    ],
)
def test_golds_may_stand_in_mappings_or_lists_written_as_text(answer):
    assert item_task(questionId=7, question="What?", answer=answer).references == ("a", "b")


def test_an_item_of_a_simulator_names_the_way_to_play_it():
    (problem,) = to_task(record({"id": "a", "gamefile": "game.tw-pddl", "task_type": "pick"}))
    assert "adapter: alfworld" in problem.message


@pytest.mark.parametrize("own", [{"question": "", "prompt": "p"}, {"prompt": "p"}, {"question": 1}])
def test_own_records_are_left_alone(own):
    assert from_skillopt(own) == own

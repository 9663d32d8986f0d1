"""Evaluations of other tools become task files that load, and what is lost is said."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.config.config import GivenSplits
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.tasks.task import Task


def write(folder: Path, files: Mapping[str, object]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def lines(*records: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def loaded(folder: Path, name: str = "tasks") -> dict[str, Task]:
    files = {split: f"{name}/{split}.jsonl" for split in ("train", "selection", "test")}
    return {one.id: one for one in load_splits(GivenSplits.model_validate(files), folder).all}


def tasks(folder: Path, name: str = "tasks") -> dict[str, dict[str, Any]]:
    """The entries that were written, by id; they load as a run loads them."""
    assert loaded(folder, name)
    files = [folder / name / f"{split}.jsonl" for split in ("train", "selection", "test")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    read = [json.loads(line) for text in texts for line in text.splitlines()]
    return {one["id"]: one for one in read}


EVALS = {
    "skill_name": "sales",
    "evals": [
        {
            "id": 1,
            "prompt": "Name the best month in sales.csv.",
            "expected_output": "The month with the highest sum.",
            "files": ["evals/files/sales.csv", "evals/files/chart.png", "../secret.txt"],
            "expectations": ["It names March", "It shows the sum"],
        },
        {"id": 2, "prompt": "Clean it.", "expected_output": ["Clean"], "should_trigger": True},
        {"id": 3, "input": "Sum it.", "assertions": ["It is 7", {"sum": True}], "checks": ["x"]},
        {"id": 5, "prompt": "And then?"},
        {"id": 6, "prompt": "sum  IT.", "expected_output": "The sum.", "files": ["../secret.txt"]},
    ],
}


def test_evals_of_an_agent_skill_are_graded_against_their_expectations(cli, tmp_path):
    write(tmp_path, {"sales/evals/evals.json": EVALS, "sales/evals/files/sales.csv": "m,n\n3,7\n"})
    (tmp_path / "sales/evals/files/chart.png").write_bytes(b"\x89PNG")
    done = cli(tmp_path, "import", "sales/evals/evals.json")
    assert (done.code, done.err) == (0, "")
    found = tasks(tmp_path)
    assert sorted(found) == ["1", "2", "3"]
    rubric = "The month with the highest sum.\n\nEach of these holds:\n- It names March\n"
    scorer = {"type": "rubric", "rubric": rubric + "- It shows the sum", "hard_at": 1.0}
    asked, files = "Name the best month in sales.csv.", {"evals/files/sales.csv": "m,n\n3,7\n"}
    assert found["1"] == {"id": "1", "prompt": asked, "files": files, "scorer": scorer}
    two = {"should_trigger": True}, {"type": "rubric", "rubric": '["Clean"]'}
    assert (found["2"]["metadata"], found["2"]["scorer"]) == two
    assert found["3"]["scorer"]["rubric"].endswith('- It is 7\n- {"sum": true}')
    for lost in ("evals/files/chart.png", "../secret.txt"):
        assert done.out.count(f"- the file {lost}: ") == 1
    assert "which only your programs see: should_trigger, checks\n" in done.out
    assert "loads is not graded\n- 6: an earlier one has this id, or " in done.out
    assert 'tasks: {"train": "tasks/train.jsonl", ' in done.out
    rows = [{"query": f"{n}?", "right": n, "expected_behavior": ["It is short"]} for n in "abc"]
    write(tmp_path, {"queries.json": {"cases": rows}, "rows.json": rows})
    told = cli(tmp_path, "import", "queries.json", "--to", "more", "--json").json
    assert told["scorer"]["rubric"] == "Each of these holds:\n- It is short"
    told = cli(tmp_path, "import", "rows.json", "--reference", "right", "--force", "--json").json
    assert told["scorer"] == {"type": "normalized"}


CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"}]


def test_samples_of_openai_evals_keep_their_turns(cli, tmp_path):
    samples = [{"input": CHAT, "ideal": ["2", "2.0"]}, {"input": CHAT[:1], "ideal": "none"}]
    more = [{"input": f"Say {word}.", "ideal": word} for word in ("one", "two")]
    write(tmp_path, {"sums.jsonl": lines(*samples, *more)})
    told = cli(tmp_path, "import", "sums.jsonl", "--json").json
    found = tasks(tmp_path)
    assert found["sums-1"] == {"id": "sums-1", "messages": CHAT, "references": ["2", "2.0"]}
    assert found["sums-2"]["messages"] == [{"role": "user", "content": "Add."}]
    assert told["lost"] == ["sums-2: that its last message is the system's"]


ROWS = [{"input": f"Say {n}.", "expected": n, "kind": "k"} for n in range(8)]
ALPACA = [{"instruction": f"Say {n}.", "input": "", "output": f"{n}"} for n in range(8)]
ITEMS = [{"item": {"ticket": f"Sort {n}.", "correct_label": "Other"}} for n in range(8)]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("rows.csv", "input,expected,kind\n" + "".join(f"Say {n}.,{n},k\n" for n in range(8)), ()),
        ("hf.json", {"features": [], "rows": [{"row_idx": 0, "row": one} for one in ROWS]}, ()),
        ("tables.json", [{**one, "row": {"input": "a cell"}} for one in ROWS], ()),
        ("lines.json", lines(*ROWS), ()),
        ("bbh.json", {"canary": "x", "examples": ROWS}, ()),
        ("q.tsv", "Problem\tAnswer\n" + "".join(f"Say {n}.\t{n}\n" for n in range(8)), ()),
        ("empty.csv", "prompt,target,,\n" + "".join(f"Say {n}.,{n},,\n" for n in range(8)), ()),
        ("alpaca.json", ALPACA, ()),
        ("items.jsonl", lines(*ITEMS), ("--prompt", "ticket", "--reference", "correct_label")),
        ("run.json", {"data": [{"id": "o", "datasource_item": one} for one in ROWS]}, ()),
    ],
)
def test_rows_share_a_scorer_and_are_divided_alike_each_time(cli, tmp_path, name, content, options):
    write(tmp_path, {name: content})
    told = cli(tmp_path, "import", name, *options, "--json").json
    assert list(told["files"].values()) == [4, 2, 2]
    assert (told["lost"], told["scorer"]) == ([], {"type": "normalized"})
    found = tasks(tmp_path)
    assert all("scorer" not in one for one in found.values())
    assert all(one.keys() & {"references", "answer"} for one in found.values())
    if name.startswith("rows"):
        first = {"prompt": "Say 1.", "references": ["1"], "metadata": {"kind": "k"}}
        assert found["rows-2"] == {"id": "rows-2", **first}
    cli(tmp_path, "import", name, *options, "--to", "again")
    assert list(tasks(tmp_path, "again")) == list(found)


@pytest.mark.parametrize(
    ("row", "kind", "references"),
    [
        ({"answer": -6.50}, "number", "-6.5"),
        ({"answer": ["-$1,500", "1,234.50", "-5%", "1 1/2", "2.50 €", "1.5 %"]}, "number", "-5%"),
        (
            {"answers": "{'text': array(['1', '2'], dtype=object), 'start': array([0, 3])}"},
            *("normalized", "s': ['1', '2']"),
        ),
        ({"answer": "{'text': '1'}"}, "normalized", "{'text': '1'}"),
        ({"answer": "[{[1]}]"}, "normalized", "[{[1]}]"),
        ({"answer": "1 a", "answer_a": "1 a", "answer_b": "1 A"}, "normalized", "1 a"),
        ({"options": "{'text': ['a'], 'label': 1}", "answer": "x"}, "normalized", "x"),
        ({"answer": 2, "A": 3, "answer2": "x", "sol1": 1, "sol2": 4}, "normalized", "2"),
        ({"answer": "1234,789.23"}, "normalized", "1234,789.23"),
        ({"answer": "025"}, "number", "025"),
        ({"expected": {"name": "Ava", "age": 3}}, "json", '{"name": "Ava", "age": 3}'),
        ({"target": "['Eve' 'Ava']"}, "normalized", "s': ['Eve', 'Ava']"),
        ({"target": '["Eve", "Ava"]'}, "normalized", """s': ['["Eve", "Ava"]']"""),
        ({"answer": {"text": ["1.5"], "answer_start": [0]}}, "number", "1.5"),
        ({"answer": "B", "options": ["x", "y", ""]}, "choice", "B"),
        ({"target": "(B)"}, "choice", "(B)"),
        ({"answer": "B", "choices": {"text": ["x", "y"], "label": None}}, "choice", "B"),
        ({"answer": "yes", "scorer": "human"}, "normalized", "yes"),
        ({"context": "Read it.", "answer": True}, "normalized", "'Read it.\\n\\nWhich is"),
        ({"answer": "A", "options": [{"name": "x"}, {"name": "y"}]}, "normalized", "A"),
        ({"answer": "#### How\nBoil it."}, "normalized", "#### How"),
        ({"answer": "It…\n#### 1,2"}, "number", "'It…\\n#### 1,2', 'references': ['1,2']"),
        ({"answer": "B", "A": ["x"], "B": "y"}, "choice", "B"),
        ({"answer": 4, "A": 3, "B": 4}, "choice", "4"),
        ({"answer": "B", "choices": ["x", "y"], "scorer": {"type": "exact"}}, "exact", "B"),
    ],
)
def test_the_scorer_fits_the_answers(cli, tmp_path, row, kind, references):
    rows = [{"question": f"Which is {n}?", **row} for n in range(8)]
    write(tmp_path, {"rows.json": rows})
    assert cli(tmp_path, "import", "rows.json", "--json").json["scorer"] == {"type": kind}
    assert references in str(next(iter(tasks(tmp_path).values())))


UP_DOWN, A_B = (f"array({one}, dtype=object)" for one in (["up", "down"], ["A", "B"]))
ONE_OF_TWO = "x\n\nA. up\nB. down"
UP_OR_DOWN = ({"A": "up", "B": "down"}, [{"value": "up"}, {"value": "down"}])


@pytest.mark.parametrize(
    ("row", "options", "reference"),
    [
        ({"question": "x", "A": "up", "B": "down", "answer_a": 1, "answerKey": "B"}, (), "B"),
        ({"prompt": "x", "A": "up", "B": "down", "C": None, "answer": "down"}, (), "down"),
        ({"input": "x", "choices": ["up", "down"], "target": "B"}, (), "B"),
        ({"question": "x", "opb": "down", "opa": "up", "answer": "b"}, (), "b"),
        ({"question": "x", "Choice A": "up", "Choice B": "down", "answer": 1}, (), "B"),
        ({"input": "x", "answerA": "up", "answerB": "down", "Z": "z", "label": "B"}, (), "B"),
        ({"prompt": "x", "endings": ["up", "down"], "answer": "1"}, (), "B"),
        ({"input": ONE_OF_TWO, "choices": ["up", "down"], "target": "B"}, (), "B"),
        ({"question": "x", "choices": "['up'\n 'down']", "answer": "1"}, (), "B"),
        ({"question": "x", "options": ["up", "down"], "answer": 1}, (), "B"),
        ({"question": "x", "options": "{'A': 'up', 'B': 'down'}", "answer": "down"}, (), "down"),
        ({"question": "x", "choices": ["up", "down"], "answer": "2"}, (), "2"),
        (
            {"question": "x", "choices": f"{{'text': {UP_DOWN}, 'label': {A_B}}}", "key": "B"}
            | {"context": "Read it.", "answer": "no"},
            ("--reference", "key"),
            "B",
        ),
        *(({"question": "x", "options": one, "answer": "down"}, (), "down") for one in UP_OR_DOWN),
    ],
)
def test_choices_are_shown_and_numbered_answers_name_one(cli, tmp_path, row, options, reference):
    (asks,) = {"question", "prompt", "input"} & row.keys()
    rows = [{**row, "id": n, asks: f"{n}: {row[asks]}"} for n in range(8)]
    rows[0] |= {"answer": 0} if row.get("answer") in (1, "1", "2") else {}
    write(tmp_path, {"rows.json": rows})
    told = cli(tmp_path, "import", "rows.json", *options, "--json").json
    assert (told["lost"], told["scorer"]) == ([], {"type": "choice"})
    last = loaded(tmp_path)["7"]
    assert last.references == (reference,)
    assert last.messages[0].content.endswith("A. up\nB. down")
    assert last.messages[0].content.count("A. up") == 1
    assert row.get("context", "") in last.messages[0].content
    assert last.metadata["choices"] == {"A": "up", "B": "down"}


@pytest.mark.parametrize(
    ("choices", "answers", "third"),
    [
        *(([1, 2, 3], (0, 1, 2), "C"), ([1, 2, 3], (1, 2, 3), "3")),
        *(([1, 2, 3], (0, "B", 2), "C"), ([1, 2, 3], (0, -1, 2), "C")),
        *((["x", "y"], (1, 1, 2), "B"), (["x", "y"], (1, "A", 2), "B")),
        (["x", "y", "z"], (1, 2, 2), "2"),
    ],
)
def test_where_positions_count_from_is_told_by_all_rows(cli, tmp_path, choices, answers, third):
    row = {"question": "How many?", "choices": choices}
    write(tmp_path, {"a.json": [{**row, "input": n, "answer": answers[n % 3]} for n in range(6)]})
    cli(tmp_path, "import", "a.json")
    found = tasks(tmp_path)
    assert [found[name]["references"] for name in ("a-3", "a-6")] == [[third], [third]]


@pytest.mark.parametrize(
    ("labels", "texts", "answers", "reference"),
    [("123", "234", "34", "2"), ("ABC", "xab", "ax", "B"), ("AB", "ba", "ab", "a")],
)
def test_texts_that_are_others_labels_are_texts(cli, tmp_path, labels, texts, answers, reference):
    row = {f"option{label}": text for label, text in zip(labels, texts, strict=True)}
    rows = [{"question": f"{n}?", **row, "answer": answers[n % 2]} for n in range(6)]
    write(tmp_path, {"a.json": rows})
    cli(tmp_path, "import", "a.json")
    assert tasks(tmp_path)["a-1"]["references"] == [reference]


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        (
            {"question": "Who?", "hint": "h", "context": "x" * 6001},
            f"## Question\n{'x' * 6001}\n\nWho?",
        ),
        ({"instruction": "Is 1 odd?", "input": "1"}, "## Instruction\nIs 1 odd?\n\n1"),
        ({"input": "By Ava.", "question": "Who?"}, "## Question\nBy Ava.\n\nWho?"),
        ({"prompt": "By Ava. Who?", "context": "By Ava."}, "By Ava. Who?"),
        ({"prompt": "Who?", "input": "Ava."}, "Ava.\n\nWho?"),
    ],
)
def test_what_to_read_is_asked_and_the_keys_of_tasks_stay(cli, tmp_path, row, asked):
    own = {"task_type": "who", "scorer": {"type": "f1"}, "reference_text": "Hm", "answer": "x"}
    ask = next(key for key in ("question", "prompt", "instruction") if key in row)
    write(tmp_path, {"a.json": [own | row, *(own | row | {ask: text} for text in ("Or?", "So?"))]})
    told = cli(tmp_path, "import", "a.json", "--json").json
    assert (told["scorer"], told["kept"]) == (
        {"type": "f1"},
        [key for key in ("hint",) if key in row],
    )
    first = loaded(tmp_path)["a-1"]
    assert (first.task_type, first.reference_text) == ("who", "Hm")
    assert first.messages[0].content == asked


def test_a_row_without_an_answer_is_left_out_by_name(cli, tmp_path):
    more = [{"id": None, "instruction": "Add.", "input": "1, 1", "output": 2, "ground_truth": "x"}]
    write(tmp_path, {"a.json": ALPACA + more + [{"instruction": "No.", "ground_truth": "x"}]})
    lost = cli(tmp_path, "import", "a.json", "--json").json["lost"]
    assert lost == ["a-10: the column output is empty"]
    added = tasks(tmp_path)["a-9"]
    assert (added["instruction"], added["references"]) == ("Add.\n\n1, 1", ["2"])


def test_the_keys_fit_the_configuration_above(cli, tmp_path):
    write(tmp_path, {"skillopt.yaml": "run: a\n", "skills/a/rows.json": ROWS})
    told = cli(tmp_path / "skills" / "a", "import", "rows.json", "--json").json
    assert told["tasks"]["test"] == "skills/a/tasks/test.jsonl"
    assert list(told["files"])[-1] == "tasks/test.jsonl"


def test_a_file_that_exists_is_replaced_only_by_force(cli, tmp_path):
    write(tmp_path, {"rows.json": ROWS, "tasks/test.jsonl": "mine\n"})
    done = cli(tmp_path, "import", "rows.json")
    assert (done.code, "tasks/test.jsonl exists" in done.err) == (2, True)
    assert [one.name for one in (tmp_path / "tasks").iterdir()] == ["test.jsonl"]
    done = cli(tmp_path, "import", "rows.json", "--to", "rows.json")
    assert (done.code, "rows.json/train.jsonl cannot be written: Not a" in done.err) == (2, True)
    assert cli(tmp_path, "import", "rows.json", "--force").code == 0
    assert len(tasks(tmp_path)) == 8


NINE = "".join(f"Say {n}.,y\n" for n in range(9))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", ",text,expected\n0,x,y\n", "--prompt. The columns are text, expected."),
        (
            "a.json",
            [{"query": "x", "should_trigger": True}],
            "and when a skill loads is not graded",
        ),
        ("a.json", [{"prompt": "x"}], "hold the answer or tests\nName it with --ref"),
        ("a.json", "{", "a.json:1: invalid JSON"),
        ("a.yaml", "run: x\n", "expected a list of tasks"),
        ("a.parquet", "PAR1", ".yml\npandas converts Parquet: `to_json("),
        ("p.yaml", "prompts: [a]\ntests: []\n", "environment: {type: promptfoo, file: p.yaml}"),
        ("a.csv", "prompt,expected\nx,y\n", "is left for selection and test; it takes 3."),
        ("a.csv", f'prompt,expected\n{NINE}"p" q,y\n', "a.csv:11: invalid CSV"),
        ("a.json", {"evals": [{"prompt": 7, "expected_output": ["x"], "files": {}}]}, "is left"),
        ("a.json", [{"input": [1], "ideal": {}, "item": 3}], "nothing is left for"),
    ],
)
def test_what_holds_no_tasks_is_refused(cli, tmp_path, name, content, told):
    write(tmp_path, {name: content})
    done = cli(tmp_path, "import", name)
    assert (done.code, told in done.err) == (2, True), done.err
    assert not (tmp_path / "tasks").exists()

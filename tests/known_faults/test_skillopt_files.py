"""SkillOpt's configurations and items, as they are: what `docs/parity.md` and the README promise.

The configurations are the shape of SkillOpt's own (reference 2.2), made small.
"""

import csv
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Cli

from skillopt_ci.tasks.files import Record
from skillopt_ci.tasks.records import to_task
from skillopt_ci.tasks.task import Task
from tests.conftest import Checkout, Workshop

BASE = """\
model:
  backend: azure_openai
  optimizer: gpt-5.5
  target: gpt-5.5
  optimizer_backend: openai_chat
  target_backend: openai_chat
train: {num_epochs: 4, train_size: 0, batch_size: 2, accumulation: 1, seed: 42}
gradient: {minibatch_size: 8, merge_batch_size: 8}
optimizer: {learning_rate: 4, min_learning_rate: 2, lr_scheduler: cosine}
env:
  name: ""
  skill_init: ""
  split_mode: ratio
  split_ratio: "2:1:7"
  split_dir: ""
  data_path: ""
  out_root: ""
"""
CHILD = """\
_base_: ../_base_/default.yaml
train: {train_size: 4}
env:
  name: searchqa
  skill_init: skillopt/envs/searchqa/skills/initial.md
  split_mode: split_dir
  split_dir: data/searchqa_split
  max_turns: 1
  workers: 24
"""
ITEM = {"context": "[DOC] It is a.", "answers": ["a"]}
SCORER = "scorer: {type: exact, answer: tag}\n"
NAMED = "searchqa/default.yaml"


@dataclass(frozen=True)
class Tree(Checkout):
    """A repository in SkillOpt's layout."""

    cli: Cli

    def items(self, folder: str, form: Callable[[str, int], Any], name: str = "items.json") -> None:
        """Put four items of that form into each split."""
        for split in ("train", "val", "test"):
            rows = [form(split, number) for number in range(4)]
            if name.endswith(".csv"):
                (self.folder / folder / split).mkdir(parents=True)
                with (self.folder / folder / split / name).open("w", newline="") as file:
                    writer = csv.DictWriter(file, rows[0])
                    writer.writeheader()
                    writer.writerows(rows)
            else:
                self.write(f"{folder}/{split}/{name}", json.dumps(rows))

    def commit(self) -> None:
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "Begin"]):
            subprocess.run(["git", *words], cwd=self.folder, check=True)

    def errors(self, config: str, *parts: str) -> list[str]:
        """What `check` has against a file, or against these parts of it."""
        done = self.cli(self.folder, "-c", config, "check", "--json")
        return [
            f"{one['part']}: {one['text']}"
            for one in json.loads(done.out)["findings"]
            if one["level"] == "error" and (not parts or one["part"] in parts)
        ]

    def config(self, config: str) -> dict[str, Any]:
        """The whole configuration that a file comes to."""
        done = self.cli(self.folder, "-c", config, "config")
        assert done.code == 0, done.err
        loaded: dict[str, Any] = yaml.safe_load(done.out)
        return loaded


@pytest.fixture
def tree(workshop: Workshop, cli: Cli) -> Tree:
    """SkillOpt's repository with its SearchQA."""
    made = Tree(workshop.folder / "skillopt", cli)
    made.write("configs/_base_/default.yaml", BASE)
    made.write(f"configs/{NAMED}", CHILD)
    made.write("skillopt/envs/searchqa/skills/initial.md", "# Answer\n")
    made.items(
        "data/searchqa_split",
        lambda split, n: {"id": f"{split}{n}", "question": f"{split} {n}?", **ITEM},
    )
    made.commit()
    return made


@pytest.fixture
def plain(workshop: Workshop, cli: Cli) -> Tree:
    """A folder with a skill and nothing else, for one file of SkillOpt's form beside it."""
    made = Tree(workshop.folder / "plain", cli)
    made.write("skill.md", "# Answer\n")
    return made


# --- configurations -----------------------------------------------------------------------------


def test_paths_start_at_the_working_directory(tree):
    assert tree.errors(f"configs/{NAMED}", "tasks", "skill") == []
    # At the top, the two places that paths can start from are one.
    tree.write("top.yaml", CHILD.replace("../_base_", "configs/_base_"))
    assert tree.errors("top.yaml") == []


@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param(BASE, id="the base of all"),
        pytest.param(
            "_base_: ../_base_/default.yaml\nevaluation: {gate_metric: soft}\n", id="gate"
        ),
    ],
)
def test_what_is_but_a_part_says_so(tree, fragment):
    tree.write("configs/features/part.yaml", fragment)
    (said,) = tree.errors("configs/features/part.yaml")
    assert "fragment" in said or "_base_: " in said


@pytest.mark.parametrize(
    ("lines", "section", "key", "value"),
    [
        ('train: {batch_size: "40"}', "train", "batch_size", 40),
        ("train: {num_epochs: 4.0}", "train", "num_epochs", 4),
        ("evaluation: {gate_mixed_weight: '0.25'}", "evaluation", "gate_mixed_weight", 0.25),
        ("gradient: {failure_only: 'true'}", "gradient", "failure_only", True),
        ("optimizer: {use_meta_skill: 0}", "optimizer", "use_meta_skill", False),
    ],
)
def test_its_spellings_of_values_are_taken(plain, lines, section, key, value):
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: d}}\n{SCORER}{lines}")
    assert plain.config("c.yaml")[section][key] == value


@pytest.mark.parametrize("kept", ["here", "beside the file"])
def test_each_path_starts_at_the_working_directory_or_else_at_the_file(plain, kept):
    plain.write("configs/notes.md", "# Notes\n")
    folder = plain.folder / ("data" if kept == "here" else "configs/data")
    folder.mkdir(parents=True)
    plain.write("configs/c.yaml", "env: {name: searchqa, skill_init: skill.md, split_dir: data}\n")
    loaded = plain.config("configs/c.yaml")
    assert loaded["skill"] == "skill.md"
    assert loaded["tasks"]["split_dir"] == folder.relative_to(plain.folder).as_posix()


def test_what_is_spelt_in_another_way_is_told(plain):
    plain.write(
        "c.yaml",
        "env: {name: searchqa, skill_init: skill.md, split_dir: d, workers: '24'}\n"
        "train: {batch_size: '40', num_epochs: 4}\n",
    )
    done = plain.cli(plain.folder, "-c", "c.yaml", "config")
    assert "c.yaml:1: env.workers: '24' is read as 24" in done.err
    assert "c.yaml:2: train.batch_size: '40' is read as 40" in done.err
    assert "num_epochs" not in done.err


@pytest.mark.parametrize(
    "spelling", ["train: {num_epochs: true}", "train: {num_epochs: 1.5}", "train: {seed: four}"]
)
def test_a_value_that_is_no_spelling_is_refused(plain, spelling):
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: d}}\n{spelling}\n")
    assert plain.cli(plain.folder, "-c", "c.yaml", "config").code == 2


@pytest.mark.parametrize(
    ("name", "scorer"),
    [("searchqa", "f1"), ("docvqa", "anls"), ("livemathematicianbench", "choice")],
)
def test_a_benchmark_brings_its_scorer(tree, name, scorer):
    tree.write("c.yaml", CHILD.replace("../_base_", "configs/_base_").replace("searchqa", name, 1))
    loaded = tree.config("c.yaml")["scorer"]
    assert (loaded["type"], loaded["answer"]) == (scorer, "tag")


@pytest.mark.parametrize("name", ["alfworld", "officeqa", "spreadsheetbench"])
def test_a_benchmark_that_needs_its_own_code_gets_its_adapter(tree, name):
    text = CHILD.replace("../_base_", "configs/_base_").replace("searchqa", name, 1)
    tree.write("c.yaml", f"{text}  max_steps: 50\n")
    loaded = tree.config("c.yaml")
    environment = loaded["environment"]
    assert (environment["type"], environment["adapter"]) == ("skillopt", name)
    assert environment["config"]["env"]["max_steps"] == 50
    assert "tasks" not in loaded
    tree.write("c.yaml", f"{text}scorer: {{type: exact}}\n")
    assert tree.config("c.yaml")["tasks"] == {"split_dir": "data/searchqa_split", "limit": 0}


# --- items --------------------------------------------------------------------------------------


def _officeqa(split: str, number: int) -> dict[str, str]:
    return {
        "uid": f"{split}{number}",
        "question": f"How much in {split} {number}?",
        "ground_truth": "12",
        "category": "lookup",
        "source_files": "a.txt",
    }


def _docvqa(split: str, number: int) -> dict[str, str]:
    return {
        "questionId": f"{split}{number}",
        "question": f"What stands in {split} {number}?",
        "answer": "['12', 'twelve']",
        "topic": "form",
    }


def _monthly(split: str, number: int) -> dict[str, object]:
    mcq = {
        "question": f"Which bound is sharp in {split} {number}?",
        "choices": [{"label": "A", "text": "1"}, {"label": "B", "text": "2"}],
        "correct_choice": {"label": "B", "text": "2"},
    }
    return {"month": split, "no": number, "mcq": mcq, "theorem_type": ["bound"]}


def _sheet(split: str, number: int) -> dict[str, str]:
    return {
        "id": f"{split}{number}",
        "instruction": f"Sum the column in {split} {number}.",
        "instruction_type": "Cell-Level Manipulation",
        "answer": "12",
    }


def _truth(split: str, number: int) -> dict[str, str]:
    row = _officeqa(split, number)
    return {**row, "id": row["uid"]}


FORMS = {
    "a CSV with a header": (
        "items.csv",
        lambda split, n: {"id": f"{split}{n}", "question": f"{split} {n}?", "answers": "a"},
    ),
    "uid": (
        "items.json",
        lambda split, n: {"uid": f"{split}{n}", "question": f"{split} {n}?", "answers": ["a"]},
    ),
    "ground_truth": ("items.json", _truth),
    "mcq": ("qa_2026_final.json", _monthly),
    "instruction": ("items.json", _sheet),
    "OfficeQA's CSV": ("officeqa.csv", _officeqa),
    "DocVQA's CSV": ("docvqa.csv", _docvqa),
}


@pytest.mark.parametrize("form", ["a CSV with a header", "mcq"])
def test_its_items_are_read(plain, form):
    name, row = FORMS[form]
    plain.items("data", row, name)
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: data}}\n{SCORER}")
    assert plain.errors("c.yaml", "tasks", "scorers") == []


@pytest.mark.parametrize(
    ("form", "id_", "kind", "references", "said"),
    [
        ("OfficeQA's CSV", "train1", "lookup", ("12",), "How much in train 1?"),
        ("DocVQA's CSV", "train1", "form", ("12", "twelve"), "What stands in train 1?"),
        ("mcq", "train:1", "bound", ("B",), "## Choices\nA. 1\nB. 2"),
        ("instruction", "train1", "Cell-Level Manipulation", ("12",), "Sum the column"),
        ("ground_truth", "train1", "lookup", ("12",), "How much in train 1?"),
        ("uid", "train1", "", ("a",), "train 1?"),
    ],
)
def test_the_parts_of_an_item_go_where_they_belong(tmp_path, form, id_, kind, references, said):
    task = _read(FORMS[form][1]("train", 1), tmp_path)
    assert (task.id, task.task_type, task.references) == (id_, kind, references)
    assert said in task.messages[0].content


@pytest.mark.parametrize(
    ("section", "keys"), [("env", "name: {a: 1}"), ("model", "codex_exec_web_search: [true]")]
)
def test_a_list_or_mapping_for_one_value_is_refused(plain, section, keys):
    plain.items("data", FORMS["uid"][1])
    more = {"env": "name: a", "model": "backend: codex_exec"} | {section: keys}
    plain.write(
        "c.yaml",
        f"env: {{{more['env']}, skill_init: skill.md, split_dir: data}}\n"
        f"model: {{{more['model']}}}\n{SCORER}",
    )
    key, kind = keys.partition(":")[0], "list" if "[" in keys else "mapping"
    (error,) = plain.errors("c.yaml", "config")
    assert error.endswith(f"{section}.{key}: expected one value, found a {kind}")


def _read(item: dict[str, object], folder: Path) -> Task:
    task = to_task(Record(item, folder / "t.json", 1))
    assert isinstance(task, Task), task
    return task


@pytest.mark.parametrize("key", ["question", "instruction"])
def test_an_item_without_an_answer_is_a_task(tmp_path, key):
    assert _read({"id": "a", key: "What is it?"}, tmp_path).references == ()


@pytest.mark.parametrize(
    "answer",
    [
        {"answers": ["a", "b"]},
        [{"text": "a"}, {"value": "b"}],
        {"ground_truth": "['a', 'b']"},
        '["a", "b"]',
    ],
)
def test_golds_may_stand_in_mappings_or_lists_written_as_text(tmp_path, answer):
    item = {"questionId": 7, "question": "What is it?", "answer": answer}
    assert _read(item, tmp_path).references == ("a", "b")


def test_a_monthly_item_may_be_flat(tmp_path):
    item = _monthly("2026", 3)
    inner = item.pop("mcq")
    assert isinstance(inner, dict)
    task = _read({**item, **inner}, tmp_path)
    assert (task.id, task.task_type, task.references) == ("2026:3", "bound", ("B",))


@pytest.mark.parametrize(
    "keys",
    [
        {"topic": "kind", "image_path": ""},
        {"category": "kind", "source_files": "a.txt"},
        {"theorem_type": ["kind", "other"]},
    ],
)
def test_a_raw_item_with_an_id_has_its_type(tmp_path, keys):
    assert _read({"id": "a", "question": "?", **keys}, tmp_path).task_type == "kind"


def test_an_item_of_a_simulator_names_the_way_to_play_it(plain):
    game = {"gamefile": "json_2.1.1/train/game.tw-pddl", "task_type": "pick"}
    plain.items("data", lambda split, n: {"id": f"{split}{n}", **game})
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: data}}\n{SCORER}")
    assert "adapter: alfworld" in plain.errors("c.yaml", "tasks")[0]


# --- Codex's switches ----------------------------------------------------------------------------


def _codex(keys: str = "") -> str:
    """A file whose models are both Codex."""
    model = f"{{optimizer_backend: codex_exec, target_backend: codex_exec{keys}}}"
    return f"env: {{name: a, skill_init: skill.md, split_dir: d}}\n{SCORER}model: {model}\n"


NETWORK = "sandbox_workspace_write.network_access=true"


@pytest.mark.parametrize("word", ["false", "0", "no", "False"])
def test_a_variable_that_says_no_keeps_the_network_off(plain, monkeypatch, word):
    monkeypatch.setenv("CODEX_EXEC_NETWORK_ACCESS", word)
    plain.write("c.yaml", _codex())
    assert NETWORK not in plain.config("c.yaml")["model"]["target"]["command"]


def test_a_quoted_false_keeps_the_network_off(plain):
    plain.write("c.yaml", _codex(", codex_exec_network_access: 'false'"))
    assert NETWORK not in plain.config("c.yaml")["model"]["target"]["command"]


@pytest.mark.parametrize(
    "key", ["codex_exec_network_access", "codex_exec_web_search", "codex_exec_sandbox"]
)
def test_a_value_that_means_nothing_is_refused(plain, key):
    plain.write("c.yaml", _codex(f", {key}: maybe"))
    done = plain.cli(plain.folder, "-c", "c.yaml", "config")
    assert done.code == 2
    assert "maybe" in done.err


def test_a_variable_that_means_nothing_is_named(plain, monkeypatch):
    monkeypatch.setenv("CODEX_SANDBOX_MODE", "none")
    plain.write("c.yaml", _codex())
    done = plain.cli(plain.folder, "-c", "c.yaml", "config")
    assert done.code == 2
    assert "'none' in the variable CODEX_SANDBOX_MODE is not one of read-only" in done.err


def test_the_variable_of_the_optimizers_sandbox_is_read(plain, monkeypatch):
    # With SkillOpt it is the chat role's, `codex_exec_sandbox` the target's.
    monkeypatch.setenv("CODEX_SANDBOX_MODE", "workspace-write")
    plain.write("c.yaml", _codex())
    command = plain.config("c.yaml")["model"]["optimizer"]["command"]
    assert command[command.index("--sandbox") + 1] == "workspace-write"


# --- what is called the same as SkillOpt's -------------------------------------------------------


def _hard(workshop: Workshop, cli: Cli, answer: str, scorer: str, task: dict[str, object]) -> float:
    """The score of one test task whose answer this is."""
    checkout = workshop.checkout()
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    checkout.write("skillopt.yaml", config.replace("{type: exact, answer: tag}", scorer))
    checkout.write("tasks/test.jsonl", json.dumps({"id": "one", **task}) + "\n")
    workshop.server.answer = lambda system, prompt: answer
    done = cli(checkout.folder, "eval", "skills/SKILL.md", "--split", "test", "--json")
    assert done.code == 0, done.err
    (measured,) = re.findall(r'"hard": ([\d.]+)', done.out)[:1]
    return float(measured)


def test_without_a_fence_the_whole_answer_counts(workshop, cli):
    answer, scorer = "first = 1\nsecond = 2", "{type: exact, answer: fence}"
    task: dict[str, object] = {"prompt": "Which lines?", "references": [answer]}
    assert _hard(workshop, cli, answer, scorer, task) == 1


def _exported(workshop: Workshop, cli: Cli, provider: str) -> Path:
    """The folder that SkillOpt would have written of a finished run of one step."""
    checkout = workshop.checkout()
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    checkout.write("skillopt.yaml", config.replace("provider: openai", f"provider: {provider}"))
    short = ("train.num_epochs=1", "train.batch_size=8")
    options = [word for one in short for word in ("-o", one)]
    assert cli(checkout.folder, "-q", "run", *options).code == 0
    out = workshop.folder / "out"
    assert cli(checkout.folder, "export", "--format", "skillopt", str(out), *options).code == 0
    return out


def test_the_exported_epochs_list_their_steps(workshop, cli):
    out = _exported(workshop, cli, "compatible")
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [one["steps"] for one in summary["epoch_stats"]] == [[1]]
    # backends are named as SkillOpt does
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    named = (config["target_backend"], config["optimizer_backend"])
    assert named == ("openai_compatible", "openai_compatible")

"""SkillOpt's configurations and items, as they are: what `docs/parity.md` and the README promise.

The configurations are the shape of SkillOpt's own (reference 2.2), made small.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.conftest import Workshop
    from tests.known_faults.conftest import Cli

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
ITEM = {"question": "Which?", "context": "[DOC] It is a.", "answers": ["a"]}
SCORER = "scorer: {type: exact, answer: tag}\n"
NAMED = "searchqa/default.yaml"


@dataclass(frozen=True)
class Tree:
    """A repository in SkillOpt's layout."""

    folder: Path
    cli: Cli

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

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
        """What `validate` has against a file, or against these parts of it."""
        done = self.cli(self.folder, "-c", config, "validate", "--json")
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
    made.items("data/searchqa_split", lambda split, n: {"id": f"{split}{n}", **ITEM})
    made.commit()
    return made


@pytest.fixture
def plain(workshop: Workshop, cli: Cli) -> Tree:
    """A folder with a skill and nothing else, for one file of SkillOpt's form beside it."""
    made = Tree(workshop.folder / "plain", cli)
    made.write("skill.md", "# Answer\n")
    return made


# --- configurations -----------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.17: paths start at the configuration's folder",
)
def test_paths_start_at_the_working_directory(tree: Tree) -> None:
    assert tree.errors(f"configs/{NAMED}", "tasks", "skill") == []


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.17: an environment's name brings no scorer"
)
def test_searchqa_brings_its_own_scorer(tree: Tree) -> None:
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
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.17: a part is told as three missing keys",
)
def test_what_is_but_a_part_says_so(tree: Tree, fragment: str) -> None:
    tree.write("configs/features/part.yaml", fragment)
    (said,) = tree.errors("configs/features/part.yaml")
    assert "fragment" in said or "_base_: " in said


@pytest.mark.parametrize(
    ("section", "key", "default"),
    [
        ("gradient", "minibatch_size", 8),
        ("optimizer", "lr_scheduler", "cosine"),
    ],
)
@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.17: unstated keys have our defaults"
)
def test_what_is_not_stated_has_skillopts_default(
    plain: Tree, section: str, key: str, default: object
) -> None:
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: d}}\n{SCORER}")
    assert plain.config("c.yaml")[section][key] == default


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
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.17: SkillOpt's spellings of values are refused",
)
def test_its_spellings_of_values_are_taken(
    plain: Tree, lines: str, section: str, key: str, value: object
) -> None:
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: d}}\n{SCORER}{lines}")
    assert plain.config("c.yaml")[section][key] == value


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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.18: a form of SkillOpt's items is not read"
)
def test_its_items_are_read(plain: Tree, form: str) -> None:
    name, row = FORMS[form]
    plain.items("data", row, name)
    plain.write("c.yaml", f"env: {{name: a, skill_init: skill.md, split_dir: data}}\n{SCORER}")
    assert plain.errors("c.yaml", "tasks", "scorers") == []


# --- Codex's switches ----------------------------------------------------------------------------


def _codex(keys: str = "") -> str:
    """A file whose models are both Codex."""
    model = f"{{optimizer_backend: codex_exec, target_backend: codex_exec{keys}}}"
    return f"env: {{name: a, skill_init: skill.md, split_dir: d}}\n{SCORER}model: {model}\n"


NETWORK = "sandbox_workspace_write.network_access=true"


@pytest.mark.parametrize("word", ["false", "0", "no", "False"])
def test_a_variable_that_says_no_keeps_the_network_off(
    plain: Tree, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("CODEX_EXEC_NETWORK_ACCESS", word)
    plain.write("c.yaml", _codex())
    assert NETWORK not in plain.config("c.yaml")["model"]["target"]["command"]


def test_a_quoted_false_keeps_the_network_off(plain: Tree) -> None:
    plain.write("c.yaml", _codex(", codex_exec_network_access: 'false'"))
    assert NETWORK not in plain.config("c.yaml")["model"]["target"]["command"]


@pytest.mark.parametrize(
    "key", ["codex_exec_network_access", "codex_exec_web_search", "codex_exec_sandbox"]
)
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.19: values of Codex's switches are unchecked",
)
def test_a_value_that_means_nothing_is_refused(plain: Tree, key: str) -> None:
    plain.write("c.yaml", _codex(f", {key}: maybe"))
    done = plain.cli(plain.folder, "-c", "c.yaml", "config")
    assert done.code == 2
    assert "maybe" in done.err


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.19: CODEX_SANDBOX_MODE is ignored"
)
def test_the_variable_of_the_optimizers_sandbox_is_read(
    plain: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With SkillOpt it is the chat role's, `codex_exec_sandbox` the target's.
    monkeypatch.setenv("CODEX_SANDBOX_MODE", "workspace-write")
    plain.write("c.yaml", _codex())
    command = plain.config("c.yaml")["model"]["optimizer"]["command"]
    assert command[command.index("--sandbox") + 1] == "workspace-write"


# --- what is called the same as SkillOpt's -------------------------------------------------------


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.20: a refill draws from the file's order"
)
def test_a_batch_with_nothing_left_is_drawn_from_the_epochs_order() -> None:
    from skillopt_ci.config.config import Train
    from skillopt_ci.messages import Message
    from skillopt_ci.tasks.task import Task
    from skillopt_ci.training.plan import plan_step

    tasks = [Task(str(number), (Message("user", "?"),)) for number in range(5)]
    train = Train(batch_size=2, accumulation=2, num_epochs=1, seed=42)
    refilled = plan_step(tasks, train, 2).batches[1]
    # What SkillOpt's `plan_train_epoch` gives for these.
    assert [task.id for task in refilled.tasks] == ["3", "0"]


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.20: no failure summary, no patterns"
)
def test_without_a_failure_summary_reasons_of_failure_are_remembered(workshop: Workshop) -> None:
    checkout = workshop.checkout()
    checkout.step()
    workshop.server.prompts.clear()
    checkout.step()
    told = [prompt for prompt in workshop.server.prompts if "### Step 1 — " in prompt]
    assert told
    # A bullet of the buffer: what it is about, how often, and in which tasks.
    assert all(re.search(r'### Step 1 — .*\n- ".+" \(×\d', prompt) for prompt in told)


def _hard(workshop: Workshop, cli: Cli, answer: str, scorer: str, task: dict[str, object]) -> float:
    """The score of one test task whose answer this is."""
    checkout = workshop.checkout()
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    checkout.write("skillopt.yaml", config.replace("{type: exact, answer: tag}", scorer))
    checkout.write("tasks/test.jsonl", json.dumps({"id": "one", **task}) + "\n")
    workshop.server.answer = lambda system, prompt: answer  # type: ignore[method-assign]
    done = cli(checkout.folder, "eval", "skills/SKILL.md", "--split", "test", "--json")
    assert done.code == 0, done.err
    (measured,) = re.findall(r'"hard": ([\d.]+)', done.out)[:1]
    return float(measured)


@pytest.mark.parametrize("golds", ["['12','twelve']", '["12", "twelve"]'])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.20: a list of golds in a text is matched as text",
)
def test_a_list_of_golds_may_be_written_as_text(workshop: Workshop, cli: Cli, golds: str) -> None:
    task: dict[str, object] = {"question": "How many?", "answer": golds}
    answer, scorer = "<answer>twelve</answer>", "{type: exact, answer: tag}"
    assert _hard(workshop, cli, answer, scorer, task) == 1


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.20: without a fence the last line is the answer",
)
def test_without_a_fence_the_whole_answer_counts(workshop: Workshop, cli: Cli) -> None:
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


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="issue 16.20: a number where SkillOpt lists the steps",
)
def test_the_exported_epochs_list_their_steps(workshop: Workshop, cli: Cli) -> None:
    out = _exported(workshop, cli, "openai")
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [one["steps"] for one in summary["epoch_stats"]] == [[1]]


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.20: providers have our names in the export"
)
def test_the_export_names_backends_as_skillopt_does(workshop: Workshop, cli: Cli) -> None:
    out = _exported(workshop, cli, "compatible")
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert (config["target_backend"], config["optimizer_backend"]) == (
        "openai_compatible",
        "openai_compatible",
    )

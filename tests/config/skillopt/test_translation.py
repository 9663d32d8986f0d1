from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.loading import Loaded, load

Load = Callable[..., Loaded]
Write = Callable[..., Path]

STRUCTURED = """\
model: {target: gpt-5.4-mini, optimizer: gpt-5.5}
train: {num_epochs: 2, batch_size: 20, train_size: 0, accumulation: 2, seed: 7}
gradient: {minibatch_size: 4, merge_batch_size: 3, analyst_workers: 5, failure_only: true}
optimizer: {learning_rate: 6, min_learning_rate: 1, lr_scheduler: linear}
evaluation: {gate_metric: soft, sel_env_num: 30, test_env_num: 50}
env:
  name: searchqa
  skill_init: skills/initial.md
  split_mode: split_dir
  split_dir: data/searchqa_split
  limit: 100
  workers: 24
  exec_timeout: 120
  max_completion_tokens: 16384
"""
FLAT = """\
env: searchqa
skill_init: skills/initial.md
split_mode: split_dir
split_dir: data/searchqa_split
limit: 100
workers: 24
exec_timeout: 120
max_completion_tokens: 16384
target_model: gpt-5.4-mini
optimizer_model: gpt-5.5
num_epochs: 2
batch_size: 20
train_size: 0
accumulation: 2
seed: 7
minibatch_size: 4
merge_batch_size: 3
analyst_workers: 5
failure_only: true
edit_budget: 6
min_edit_budget: 1
lr_scheduler: linear
gate_metric: soft
sel_env_num: 30
test_env_num: 50
"""
SHORT = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"


def test_the_structured_form_is_read(load_text: Load) -> None:
    config = load_text(STRUCTURED).config
    assert (config.run, config.skill) == ("searchqa", "skills/initial.md")
    assert config.tasks.model_dump() == {"split_dir": "data/searchqa_split", "limit": 100}
    assert (config.train.accumulation, config.gradient.failure_only) == (2, True)
    assert (config.optimizer.learning_rate, config.optimizer.lr_scheduler) == (6, "linear")
    assert (config.evaluation.gate_metric, config.evaluation.sel_env_num) == ("soft", 30)


def test_limits_of_calls_go_to_the_target(load_text: Load) -> None:
    model = load_text(STRUCTURED).config.model
    target = model.target
    assert (target.max_concurrency, target.timeout) == (24, 120)
    assert (target.max_output_tokens, model.optimizer.max_output_tokens) == (16384, None)


def test_the_flat_form_means_the_same(load_text: Load) -> None:
    assert load_text(FLAT).config == load_text(STRUCTURED).config


def test_within_one_file_the_structured_spelling_wins(load_text: Load) -> None:
    text = SHORT + "optimizer: {learning_rate: 5}\nedit_budget: 9\n"
    assert load_text(text).config.optimizer.learning_rate == 5


@pytest.mark.parametrize("child", ["edit_budget: 9", "optimizer: {learning_rate: 9}"])
@pytest.mark.parametrize("base", ["edit_budget: 5", "optimizer: {learning_rate: 5}"])
def test_across_files_the_child_wins_whatever_the_spelling(
    write: Write, base: str, child: str
) -> None:
    write(base, "base.yaml")
    main = write(f"_base_: base.yaml\n{SHORT}{child}\n")
    assert load(main).config.optimizer.learning_rate == 9


@pytest.mark.parametrize(
    "override", ["edit_budget=9", "optimizer.learning_rate=9", "optimizer={learning_rate: 9}"]
)
def test_overrides_win_in_every_spelling(load_text: Load, override: str) -> None:
    text = SHORT + "optimizer: {learning_rate: 5}\n"
    assert load_text(text, override).config.optimizer.learning_rate == 9


def test_one_file_of_tasks_is_divided_by_ratio(load_text: Load) -> None:
    text = "env: {name: a, skill_init: s, data_path: d, split_ratio: '1:1:2', split_seed: 3}"
    assert load_text(text).config.tasks.model_dump() == {
        "path": "d",
        "split": "1:1:2",
        "seed": 3,
        "limit": 0,
    }


@pytest.mark.parametrize(
    ("mode", "used"),
    [("", "folder"), ("split_mode: ratio, ", "file"), ("split_mode: split_dir, ", "folder")],
)
def test_split_mode_decides_when_both_are_given(load_text: Load, mode: str, used: str) -> None:
    text = f"env: {{name: a, skill_init: s, {mode}split_dir: folder, data_path: file}}"
    assert used in load_text(text).config.tasks.model_dump().values()


def test_a_split_folder_serves_where_ratio_has_no_file(load_text: Load) -> None:
    text = "env: {name: a, skill_init: s, split_mode: ratio, split_dir: d, data_path: ''}"
    assert load_text(text).config.tasks.model_dump()["split_dir"] == "d"


@pytest.mark.parametrize(
    ("out_root", "run"),
    [("outputs/My run #2/", "My-run-2"), ("", "a"), ("C:\\out\\x.y", "x-y"), ("r" * 80, "r" * 64)],
)
def test_the_run_is_named_after_the_output_folder(load_text: Load, out_root: str, run: str) -> None:
    text = f"env: {{name: a, skill_init: s, data_path: d, out_root: '{out_root}'}}"
    assert load_text(text).config.run == run


def test_own_sections_may_stand_beside_and_win(load_text: Load) -> None:
    text = SHORT + "run: mine\nscorer: {type: f1}\nbudget: {run: {calls: 9}}\n"
    config = load_text(text + "tasks: {train: a, selection: b}\n").config
    assert config.run == "mine"
    assert config.scorer is not None
    assert config.tasks.model_dump()["selection"] == "b"


def test_a_role_may_be_given_in_our_own_form(load_text: Load) -> None:
    text = SHORT + "model: {target: {provider: simulated, model: m}, optimizer: gpt-5.5}\n"
    model = load_text(text + "workers: 3\n").config.model
    assert (model.target.provider, model.target.max_concurrency) == ("simulated", 16)
    assert model.optimizer.provider == "openai"


def test_a_judge_is_kept(load_text: Load) -> None:
    text = SHORT + "model: {judge: {provider: simulated, model: m}}\n"
    assert load_text(text).config.model.judge is not None


def test_flat_keys_without_an_environment_are_recognised(load_text: Load) -> None:
    text = "skill_init: s\ndata_path: d\nout_root: o\nedit_budget: 3\n"
    assert load_text(text).config.optimizer.learning_rate == 3


def test_a_flat_key_beside_our_own_ones_is_a_slip(complaint_with: Callable[..., str]) -> None:
    assert "did you mean train.batch_size?" in complaint_with("batch_size: 3\n")


def test_what_is_missing_is_told_in_our_terms(complaint: Callable[..., str]) -> None:
    text = complaint("env: {name: a}\n")
    assert "skillopt.yaml:1: skill: missing. The document to train" in text
    assert "skillopt.yaml:1: tasks: missing." in text

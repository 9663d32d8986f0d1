from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.loading import Loaded, load

Load = Callable[..., Loaded]

SHORT = """\
env: {name: a, skill_init: s.md, data_path: d.jsonl}
azure_endpoint: https://x.openai.azure.com
"""


@pytest.fixture
def warnings(load_text: Load, tmp_path: Path) -> Callable[..., list[str]]:
    """The warnings for a SkillOpt file with more text after its two lines, less folders."""

    def collect(extra: str, *overrides: str) -> list[str]:
        loaded = load_text(SHORT + extra, *overrides)
        return [text.replace(f"{tmp_path}/", "") for text in loaded.warnings]

    return collect


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ("optimizer: {meta_learning_rate: 3}", "optimizer.meta_learning_rate"),
        ("rewrite_reasoning_effort: high", "model.rewrite_reasoning_effort"),
        ("train: {steps_per_epoch: 10}", "train.steps_per_epoch"),
        ("max_analyst_rounds: 3", "gradient.max_analyst_rounds"),
        ("image_detail: auto", "env.image_detail"),
        ("model: {codex_exec_use_sdk: true}", "model.codex_exec_use_sdk"),
        ("copilot_exec_home: /h", "model.copilot_exec_home"),
        ("search: {provider: x}", "env.search"),
    ],
)
def test_a_key_without_meaning_is_named_once_with_its_place(
    warnings: Callable[..., list[str]], extra: str, key: str
) -> None:
    assert warnings(extra) == [f"skillopt.yaml:3: {key}: has no meaning here and is ignored"]


@pytest.mark.parametrize(
    "extra",
    [
        "optimizer: {use_slow_update: false, skill_update_mode: patch, lr_control_mode: none}",
        "optimizer: {use_slow_update: true, use_meta_skill: true, lr_scheduler: autonomous}",
        "model: {codex_exec_use_sdk: auto, codex_path: codex, rewrite_reasoning_effort: ''}",
        "evaluation: {use_gate: true, leading_words: null, gate_metric: null}",
        "model: {codex_exec_path: '', azure_openai_api_key: '', target_backend: ''}",
        "max_turns: 1",
        "split_seed: 3",
    ],
)
def test_what_is_unset_or_so_anyway_needs_no_warning(
    warnings: Callable[..., list[str]], extra: str
) -> None:
    assert warnings(extra) == []


def test_a_slip_of_the_pen_is_suspected(warnings: Callable[..., list[str]]) -> None:
    (text,) = warnings("train: {batch_sise: 3}")
    assert text.endswith("is ignored; did you mean 'batch_size'?")


def test_warnings_come_in_the_order_of_the_file(warnings: Callable[..., list[str]]) -> None:
    found = warnings("zeta: 1\nmodel: {copilot_exec_home: x}\nmeta_edit_budget: 3\n", "alpha=1")
    assert [text.split(": ")[1] for text in found] == [
        "env.zeta",
        "model.copilot_exec_home",
        "optimizer.meta_learning_rate",
        "env.alpha",
    ]


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("azure_openai_api_key", "AZURE_OPENAI_API_KEY"),
        ("azure_api_key", "AZURE_OPENAI_API_KEY"),
        ("target_azure_openai_api_key", "TARGET_AZURE_OPENAI_API_KEY"),
        ("minimax_api_key", "MINIMAX_API_KEY"),
        ("qwen_chat_api_key", "QWEN_CHAT_API_KEY"),
    ],
)
def test_keys_in_clear_are_refused_with_the_way_to_do_it(
    complaint: Callable[..., str], key: str, variable: str
) -> None:
    text = complaint(f"{SHORT}model: {{{key}: sk-secret}}\n")
    assert text.startswith(f"skillopt.yaml:3: model.{key}: a key does not belong in a file")
    assert text.endswith(variable)
    assert "sk-secret" not in text


def test_keys_in_clear_are_told_together_with_all_other_problems(
    complaint: Callable[..., str],
) -> None:
    text = complaint(f"{SHORT}minimax_api_key: sk-secret\nseed: x\n")
    assert len(text.splitlines()) == 2


def test_the_usual_layout_of_two_files_loads(tmp_path: Path) -> None:
    (tmp_path / "_base_").mkdir()
    (tmp_path / "qa").mkdir()
    (tmp_path / "_base_" / "default.yaml").write_text(
        "model: {backend: azure_openai, optimizer: gpt-5.5, target: gpt-5.5,"
        " reasoning_effort: medium}\n"
        "train: {num_epochs: 4, batch_size: 40}\n"
        "optimizer: {learning_rate: 4, use_slow_update: true}\n"
        "env: {name: '', skill_init: '', split_mode: ratio, split_ratio: '2:1:7'}\n",
        encoding="utf-8",
    )
    child = tmp_path / "qa" / "default.yaml"
    child.write_text(
        "_base_: ../_base_/default.yaml\ntrain: {train_size: 400}\n"
        "env: {name: qa, skill_init: i.md, split_mode: split_dir, split_dir: data}\n",
        encoding="utf-8",
    )
    loaded = load(child)
    assert loaded.config.train.train_size == 400
    assert loaded.config.model.target.reasoning_effort == "medium"
    assert loaded.warnings[0].startswith(f"{tmp_path / '_base_' / 'default.yaml'}:1: model.")

from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.config import Evaluation, Optimizer
from skillopt_ci.config.loading import Loaded, load

Load = Callable[..., Loaded]

SHORT = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"


@pytest.mark.parametrize(
    ("key", "words", "ours"),
    [
        ("skill_update_mode", "patch edits", "patch"),
        (
            "skill_update_mode",
            "rewrite rewrite_from_suggestions suggestions rewrite_suggestions",
            "rewrite_from_suggestions",
        ),
        (
            "skill_update_mode",
            "full_rewrite full_rewrite_minibatch minibatch_full_rewrite skill_rewrite_minibatch",
            "full_rewrite_minibatch",
        ),
        ("lr_control_mode", "fixed manual scheduler scheduled", "fixed"),
        ("lr_control_mode", "autonomous auto optimizer", "autonomous"),
        ("lr_control_mode", "none off 'off' no_lr", "none"),
        ("longitudinal_pair_policy", "mixed default random all", "mixed"),
        ("longitudinal_pair_policy", "changed change delta '10_01' '01_10'", "changed"),
        ("longitudinal_pair_policy", "unchanged stable same '00_11'", "unchanged"),
    ],
)
def test_every_word_for_a_value_is_understood(
    load_text: Load, key: str, words: str, ours: str
) -> None:
    texts = [f"{SHORT}optimizer: {{{key}: {word}}}" for word in words.split()]
    read = [getattr(load_text(text).config.optimizer, key) for text in texts]
    assert read == [ours] * len(texts)


def test_an_unknown_word_is_refused_and_not_taken_for_the_default(
    complaint: Callable[..., str],
) -> None:
    text = complaint(f"{SHORT}optimizer: {{skill_update_mode: rewrites}}")
    assert "skillopt.yaml:2: optimizer.skill_update_mode" in text


def test_every_option_of_the_optimizer_is_taken_over(load_text: Load) -> None:
    stated = {
        "lr_scheduler": "autonomous",
        "use_slow_update": False,
        "slow_update_samples": 7,
        "slow_update_gate_with_selection": False,
        "use_meta_skill": False,
        "use_skill_aware_reflection": True,
        "skill_aware_appendix_source": "failure_only",
        "skill_aware_consolidate_threshold": 5,
    }
    flat = "".join(f"{key}: {value}\n" for key, value in stated.items())
    loaded = load_text(SHORT + flat + "azure_endpoint: https://x")
    assert loaded.warnings == ()
    assert loaded.config.optimizer == Optimizer.model_validate(stated)


def test_the_gate_decides_on_slow_updates_unless_the_file_says_otherwise(load_text: Load) -> None:
    assert load_text(SHORT).config.optimizer.slow_update_gate_with_selection


@pytest.mark.parametrize("words", ["'must, only,'", "[must, only]"])
def test_leading_words_are_a_list_or_divided_by_commas(load_text: Load, words: str) -> None:
    text = f"{SHORT}evaluation: {{use_gate: false, eval_test: false, leading_words: {words}, "
    text += "use_semantic_density: true, semantic_density_weight: 0.1}"
    assert load_text(text).config.evaluation == Evaluation(
        use_gate=False,
        eval_test=False,
        leading_words=("must", "only"),
        use_semantic_density=True,
        semantic_density_weight=0.1,
    )


@pytest.mark.parametrize("text", ["KEY", "model: {KEY}"])
def test_keys_of_the_models_go_where_they_belong(load_text: Load, text: str) -> None:
    keys = "rewrite_max_completion_tokens: 9000", "codex_trace_to_optimizer: false"
    tokens = load_text(SHORT + text.replace("KEY", keys[0])).config
    assert tokens.optimizer.rewrite_max_completion_tokens == 9000
    traces = load_text(SHORT + text.replace("KEY", keys[1])).config
    assert not traces.gradient.trace_to_optimizer


def test_an_older_spelling_in_a_child_wins_over_its_base(
    write: Callable[..., Path],
) -> None:
    write("model: {codex_exec_path: base, target_backend: codex}", "base.yaml")
    file = write(f"_base_: base.yaml\n{SHORT}codex_bin: child\n")
    assert load(file).config.model.target.command[0] == "child"


def test_the_usual_spelling_wins_within_one_file(load_text: Load) -> None:
    keys = "target_backend: codex, codex_bin: old, codex_path: older, codex_exec_path: usual"
    target = load_text(f"{SHORT}model: {{{keys}}}").config.model.target
    assert target.command[0] == "usual"

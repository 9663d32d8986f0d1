from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from skillopt_ci.config.config import Budget, Evaluation, Limits, Optimizer
from skillopt_ci.config.loading import Loaded, load
from skillopt_ci.messages import Message
from skillopt_ci.model.access import base_url_of
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.training.plan import planned

ENV = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"


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
#: What the flat form calls otherwise.
FLAT = {"name": "env", "target": "target_model", "optimizer": "optimizer_model"}
FLAT |= {"learning_rate": "edit_budget", "min_learning_rate": "min_edit_budget"}


def test_the_structured_form_is_read_with_its_limits_of_calls(load_text):
    config = load_text(STRUCTURED).config
    assert (config.run, config.skill) == ("searchqa", "skills/initial.md")
    assert config.tasks.model_dump() == {"split_dir": "data/searchqa_split", "limit": 100}
    assert (config.train.accumulation, config.gradient.failure_only) == (2, True)
    assert (config.optimizer.learning_rate, config.optimizer.lr_scheduler) == (6, "linear")
    assert (config.evaluation.gate_metric, config.evaluation.sel_env_num) == ("soft", 30)
    model = load_text(STRUCTURED).config.model
    target = model.target
    assert (target.max_concurrency, target.timeout) == (24, 120)
    assert (target.max_output_tokens, model.optimizer.max_output_tokens) == (16384, None)


def test_the_flat_form_means_the_same(load_text):
    sections = yaml.safe_load(STRUCTURED).values()
    flat = {FLAT.get(key, key): value for one in sections for key, value in one.items()}
    assert load_text(yaml.safe_dump(flat)).config == load_text(STRUCTURED).config


def test_within_one_file_the_structured_spelling_wins(load_text):
    text = ENV + "optimizer: {learning_rate: 5}\nedit_budget: 9\n"
    assert load_text(text).config.optimizer.learning_rate == 5


@pytest.mark.parametrize("child", ["edit_budget: 9", "optimizer: {learning_rate: 9}"])
@pytest.mark.parametrize("base", ["edit_budget: 5", "optimizer: {learning_rate: 5}"])
def test_across_files_the_child_wins_whatever_the_spelling(write, base, child):
    write(base, "base.yaml")
    assert load(write(f"_base_: base.yaml\n{ENV}{child}\n")).config.optimizer.learning_rate == 9


@pytest.mark.parametrize(
    "override", ["edit_budget=9", "optimizer.learning_rate=9", "optimizer={learning_rate: 9}"]
)
def test_overrides_win_in_every_spelling(load_text, override):
    text = ENV + "optimizer: {learning_rate: 5}\n"
    assert load_text(text, override).config.optimizer.learning_rate == 9


def test_one_file_of_tasks_is_divided_by_ratio(load_text):
    text = "env: {name: a, skill_init: s, data_path: d, split_ratio: '1:1:2', split_seed: 3}"
    tasks = load_text(text).config.tasks.model_dump()
    assert tasks == {"path": "d", "split": "1:1:2", "seed": 3, "limit": 0}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("data_path: file", "folder"),
        ("data_path: file, split_mode: ratio", "file"),
        ("data_path: file, split_mode: split_dir", "folder"),
        ("data_path: file, split_mode: Split_Dir", "folder"),
        ("data_path: '', split_mode: ratio", "folder"),
    ],
)
def test_split_mode_decides_when_both_are_given(load_text, given, used):
    text = f"env: {{name: a, skill_init: s, split_dir: folder, {given}}}"
    assert used in load_text(text).config.tasks.model_dump().values()


@pytest.mark.parametrize(
    ("line", "section", "key", "value"),
    [
        ('train: {batch_size: "40"}', "train", "batch_size", 40),
        ("train: {num_epochs: 4.0}", "train", "num_epochs", 4),
        ("evaluation: {gate_mixed_weight: '0.25'}", "evaluation", "gate_mixed_weight", 0.25),
        ("gradient: {failure_only: 'true'}", "gradient", "failure_only", True),
        ("optimizer: {use_meta_skill: 0}", "optimizer", "use_meta_skill", False),
    ],
)
def test_its_spellings_of_values_are_taken(load_text, line, section, key, value):
    assert getattr(getattr(load_text(ENV + line).config, section), key) == value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train: {num_epochs: true}", "train.num_epochs: "),
        ("train: {num_epochs: 1.5}", "train.num_epochs: "),
        ("train: {seed: four}", "train.seed: "),
        ("train: 4", "train: expected a mapping, found 4"),
        ("optimizer: {skill_update_mode: rewrites}", "optimizer.skill_update_mode: "),
        ("out_root: {a: 1}", "env.out_root: expected one value, found a mapping"),
        (
            "model: {codex_exec_web_search: [true]}",
            "model.codex_exec_web_search: expected one value, found a list",
        ),
    ],
)
def test_what_is_no_spelling_of_a_value_is_refused(complaint, line, said):
    assert complaint(ENV + line).startswith(f"skillopt.yaml:2: {said}")


@pytest.mark.parametrize(
    "fragment",
    [
        "train: {batch_size: 2}\nenv: {name: '', skill_init: '', split_mode: ratio}\n",
        "_base_: base.yaml\nevaluation: {gate_metric: soft}\n",
    ],
)
def test_what_is_but_a_part_says_so(write, complaint, fragment):
    write("train: {batch_size: 2}\nenv: {name: '', split_dir: ''}\n", "base.yaml")
    assert "this file is a fragment" in complaint(fragment)


@pytest.mark.parametrize("kept", ["here", "beside the file"])
def test_each_path_starts_at_the_working_directory_or_else_at_the_file(write, tmp_path, kept):
    write("# Skill\n", "skill.md")
    main = write("env: {name: a, skill_init: skill.md, split_dir: data}\n", "configs/c.yaml")
    folder = "data" if kept == "here" else "configs/data"
    (tmp_path / folder).mkdir()
    loaded = load(main, cwd=tmp_path)
    assert loaded.config.skill == "skill.md"
    assert loaded.config.tasks.model_dump()["split_dir"] == folder


@pytest.mark.parametrize(
    ("name", "scorer"),
    [("searchqa", "f1"), ("docvqa", "anls"), ("livemathematicianbench", "choice")],
)
def test_a_benchmark_brings_its_scorer(load_text, name, scorer):
    loaded = load_text(ENV.replace("name: a", f"name: {name}")).config.scorer
    assert (loaded.type, loaded.answer) == (scorer, "tag")


@pytest.mark.parametrize("name", ["alfworld", "officeqa", "spreadsheetbench"])
def test_a_benchmark_that_needs_its_own_code_gets_its_adapter(load_text, name):
    text = f"env: {{name: {name}, skill_init: s.md, split_dir: d, max_steps: 50}}\n"
    config = load_text(text).config
    options = config.environment.model_dump()
    assert (options["type"], options["adapter"]) == ("skillopt", name)
    assert options["config"]["env"]["max_steps"] == 50
    assert config.tasks is None
    tasks = load_text(f"{text}scorer: {{type: exact}}\n").config.tasks
    assert tasks.model_dump() == {"split_dir": "d", "limit": 0}
    own = load_text(f"{text}environment: {{type: skillopt, adapter: mine.py:Mine}}\n")
    assert own.config.tasks is None
    assert "max_steps" not in str(own.warnings)  # the adapter may read it
    assert load_text(f"{text}environment:\n").config.tasks == tasks


@pytest.mark.parametrize(
    ("out_root", "run"),
    [
        *(("outputs/My run #2/", "My-run-2"), ("C:\\out\\x.y", "x-y"), ("r" * 80, "r" * 64)),
        *((nameless, "a") for nameless in ("", "..", "outputs/你好")),
    ],
)
def test_the_run_is_named_after_the_output_folder(load_text, out_root, run):
    text = f"env: {{name: a, skill_init: s, data_path: d, out_root: '{out_root}'}}"
    assert load_text(text).config.run == run


def test_own_sections_may_stand_beside_and_win(load_text):
    text = ENV + "run: mine\nscorer: {type: f1}\nbudget: {run: {calls: 9}}\n"
    config = load_text(text + "tasks: {train: a, selection: b}\n").config
    assert config.run == "mine"
    assert config.scorer.type == "f1"
    assert config.tasks.model_dump()["selection"] == "b"
    text = "skill_init: s\ndata_path: d\nout_root: o\nedit_budget: 3\n"
    assert load_text(text).config.optimizer.learning_rate == 3


def test_a_role_may_be_given_in_our_own_form(load_text):
    ours = "{provider: simulated, model: m}"
    text = f"{ENV}model: {{target: {ours}, judge: {ours}, optimizer: gpt-5.5}}\n"
    model = load_text(text + "workers: 3\n").config.model
    assert (model.target.provider, model.target.max_concurrency) == ("simulated", 16)
    assert (model.optimizer.provider, model.judge.model) == ("openai", "m")


def test_what_is_missing_is_told_in_our_terms(complaint):
    text = complaint("env: {name: a}\n")
    assert "skillopt.yaml:1: skill: missing. The document to train" in text
    assert "skillopt.yaml:1: tasks: missing." in text


SHORT = """\
env: {name: a, skill_init: s.md, data_path: d.jsonl}
azure_endpoint: https://x.openai.azure.com
"""


@pytest.fixture
def warnings(load_text: Callable[..., Loaded], tmp_path: Path) -> Callable[..., list[str]]:
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
def test_a_key_without_meaning_is_named_once_with_its_place(warnings, extra, key):
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
def test_what_is_unset_or_so_anyway_needs_no_warning(warnings, extra):
    assert warnings(extra) == []


def test_what_is_spelt_in_another_way_is_told(warnings):
    assert [
        text.partition(";")[0]
        for text in warnings("workers: '24'\ntrain: {batch_size: '40', num_epochs: 4}")
    ] == [
        "skillopt.yaml:3: env.workers: '24' is read as 24",
        "skillopt.yaml:4: train.batch_size: '40' is read as 40",
    ]


def test_a_slip_of_the_pen_is_suspected(warnings):
    for line, hint in (
        ("train: {batch_sise: 3}", "; did you mean 'batch_size'?"),
        ("num_epoch: 3", "; did you mean 'num_epochs'?"),
        ("target: x", ""),  # right, but in the wrong place
    ):
        assert [text.partition(" is ")[2] for text in warnings(line)] == [f"ignored{hint}"]
    found = warnings("zeta: 1\nmodel: {copilot_exec_home: x}\nmeta_edit_budget: 3\n", "alpha=1")
    assert [text.split(": ")[1] for text in found] == [
        "env.zeta",
        "model.copilot_exec_home",
        "optimizer.meta_learning_rate",
        "env.alpha",
    ]
    in_one_line = warnings("model: {u: 1, v: 1, w: 1, x: 1, y: 1, z: 1}")
    assert [text.split(": ")[1] for text in in_one_line] == [f"model.{key}" for key in "uvwxyz"]


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
def test_keys_in_clear_are_refused_with_the_way_to_do_it(complaint, key, variable):
    text, other = complaint(f"{SHORT}model: {{{key}: sk-secret}}\nseed: x\n").splitlines()
    assert text.startswith(f"skillopt.yaml:3: model.{key}: a key does not belong in a file")
    assert text.endswith(variable)
    assert "sk-secret" not in text
    assert "seed" in other


def test_the_usual_layout_of_two_files_loads(tmp_path):
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


@pytest.mark.parametrize(
    ("key", "words", "ours"),
    [
        ("skill_update_mode", "patch edits Patch", "patch"),
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
        ("lr_control_mode", "none off 'off' OFF no_lr", "none"),
        ("longitudinal_pair_policy", "mixed default random all", "mixed"),
        ("longitudinal_pair_policy", "changed change delta '10_01' '01_10'", "changed"),
        ("longitudinal_pair_policy", "unchanged stable same '00_11'", "unchanged"),
        ("gate_metric", "soft Soft", "soft"),
    ],
)
def test_every_word_for_a_value_is_understood(load_text, key, words, ours):
    section = "evaluation" if key == "gate_metric" else "optimizer"
    configs = [load_text(f"{ENV}{section}: {{{key}: {word}}}").config for word in words.split()]
    assert {getattr(getattr(config, section), key) for config in configs} == {ours}


def test_every_option_of_the_optimizer_is_taken_over(load_text):
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
    loaded = load_text(ENV + flat + "azure_endpoint: https://x")
    assert loaded.warnings == ()
    edits = {"learning_rate": 4, "min_learning_rate": 2}
    assert loaded.config.optimizer == Optimizer.model_validate({**edits, **stated})
    assert load_text(ENV).config.optimizer.slow_update_gate_with_selection  # as the paper has it


@pytest.mark.parametrize("words", ["'must, only,'", "[must, only]"])
def test_leading_words_are_a_list_or_divided_by_commas(load_text, words):
    text = f"{ENV}evaluation: {{use_gate: false, eval_test: false, leading_words: {words}, "
    text += "use_semantic_density: true, semantic_density_weight: 0.1}"
    assert load_text(text).config.evaluation == Evaluation(
        use_gate=False,
        eval_test=False,
        confirm=0,
        leading_words=("must", "only"),
        use_semantic_density=True,
        semantic_density_weight=0.1,
    )


@pytest.mark.parametrize("text", ["KEY", "model: {KEY}"])
def test_keys_of_the_models_go_where_they_belong(load_text, text):
    keys = "rewrite_max_completion_tokens: 9000", "codex_trace_to_optimizer: false"
    tokens = load_text(ENV + text.replace("KEY", keys[0])).config
    assert tokens.optimizer.rewrite_max_completion_tokens == 9000
    assert not load_text(ENV + text.replace("KEY", keys[1])).config.gradient.trace_to_optimizer


def test_an_older_spelling_in_a_child_wins_over_its_base(write):
    write("model: {codex_exec_path: base, target_backend: codex}", "base.yaml")
    file = write(f"_base_: base.yaml\n{ENV}codex_bin: child\n")
    assert load(file).config.model.target.command[0] == "child"


def test_the_usual_spelling_wins_within_one_file(load_text):
    keys = "target_backend: codex, codex_bin: old, codex_path: older, codex_exec_path: usual"
    assert load_text(f"{ENV}model: {{{keys}}}").config.model.target.command[0] == "usual"


def test_azure_is_found_by_the_environment_alone(load_text):
    environ = {
        "AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com",
        "AZURE_OPENAI_API_KEY": "k",
        "AZURE_OPENAI_API_VERSION": "2024-12-01-preview",
        "TARGET_DEPLOYMENT": "small",
    }
    loaded = load_text(ENV, environ=environ)
    target, optimizer = loaded.config.model.target, loaded.config.model.optimizer
    assert base_url_of(target) == "https://e.openai.azure.com/openai/deployments/small"
    assert (optimizer.provider, optimizer.model) == ("azure", "gpt-5.5")
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", ["TARGET_AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_TARGET_ENDPOINT"])
def test_a_role_s_variable_has_two_spellings(load_text, name):
    environ = {"AZURE_OPENAI_ENDPOINT": "https://all/openai/v1", name: "https://t/openai/v1"}
    model = load_text(ENV, environ=environ).config.model
    assert base_url_of(model.target) == "https://t/openai/v1"
    assert base_url_of(model.optimizer) == "https://all/openai/v1"


def test_what_stands_in_a_file_wins(load_text):
    text = f"{ENV}model: {{target: mine, minimax_region: '', target_backend: minimax}}"
    environ = {"TARGET_DEPLOYMENT": "theirs", "MINIMAX_REGION": "cn_zh"}
    target = load_text(text, environ=environ).config.model.target
    assert (target.model, target.region) == ("mine", "cn")


def test_a_compatible_server_is_configured_by_variables(load_text):
    text = f"{ENV}model: {{backend: openai_compatible, target: m}}"
    environ = {
        "OPENAI_COMPATIBLE_BASE_URL": "http://shared/v1",
        "TARGET_OPENAI_COMPATIBLE_BASE_URL": "http://own/v1",
        "OPENAI_COMPATIBLE_TEMPERATURE": "0.2",
        "OPENAI_COMPATIBLE_MAX_TOKENS": "900",
        "OPENAI_COMPATIBLE_TIMEOUT_SECONDS": "30",
        "TARGET_OPENAI_COMPATIBLE_API_KEY": "k",
    }
    loaded = load_text(text, environ=environ)
    target, optimizer = loaded.config.model.target, loaded.config.model.optimizer
    assert (target.base_url, optimizer.base_url) == ("http://own/v1", "http://shared/v1")
    assert (target.temperature, target.max_output_tokens, target.timeout) == (0.2, 900, 30)
    assert target.key_variable == "TARGET_OPENAI_COMPATIBLE_API_KEY"
    assert optimizer.key_variable is None
    assert loaded.warnings == ()


def test_qwen_s_variables_count(load_text):
    text = f"{ENV}model: {{target_backend: qwen_chat}}"
    environ = {
        "QWEN_CHAT_BASE_URL": "http://q/v1",
        "QWEN_CHAT_THINKING_MODE": "enabled",
        "QWEN_CHAT_USE_MAX_COMPLETION_TOKENS": "true",
        "QWEN_CHAT_API_KEY": "k",
    }
    target = load_text(text, environ=environ).config.model.target
    assert (target.base_url, target.thinking) == ("http://q/v1", True)
    assert target.token_limit_field == "max_completion_tokens"
    assert target.key_variable == "QWEN_CHAT_API_KEY"


@pytest.mark.parametrize(
    ("variable", "backend"), [("CODEX_CLI_BIN", "codex_exec"), ("CLAUDE_CLI_BIN", "claude_chat")]
)
def test_a_program_s_place_may_be_a_variable(load_text, variable, backend):
    text = f"{ENV}model: {{target_backend: {backend}}}"
    target = load_text(text, environ={variable: "/opt/it"}).config.model.target
    assert target.command[0] == "/opt/it"


def test_no_key_is_read(load_text):
    environ = {"AZURE_OPENAI_ENDPOINT": "https://e", "AZURE_OPENAI_API_KEY": "sk-secret"}
    assert "sk-secret" not in repr(load_text(ENV, environ=environ))
    text = "run: r\nskill: s\ntasks: {path: t}\nmodel: {target: openai/a, optimizer: openai/b}\n"
    environ = {"TARGET_DEPLOYMENT": "x", "AZURE_OPENAI_ENDPOINT": "https://e"}
    assert load_text(text, environ=environ).config == load_text(text).config


def test_new_defaults_of_ours_are_not_those_of_a_skillopt_file(load_text):
    config = load_text(ENV).config
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.min_learning_rate) == (4, 2)
    assert (optimizer.lr_scheduler, config.gradient.failure_only) == ("cosine", False)
    assert (config.gradient.minibatch_size, config.train.num_epochs) == (8, 4)
    target = config.model.target
    assert (target.timeout, target.max_output_tokens) == (120, 16384)
    budget = config.model_copy(update={"budget": Budget(run=Limits(calls=100))})
    tasks = tuple(Task(f"t{number}", (Message("user", "?"),)) for number in range(50))
    splits = Splits(tasks, tasks, ())
    assert planned(budget, splits, None) == (budget, splits)
    wide = load_text(
        f"{ENV[:-2]}, workers: 64}}\nevaluation: {{gate: {{max_type_loss: 0.1}}}}\n"
    ).config
    assert planned(wide, splits, None)[0].evaluation.gate == wide.evaluation.gate

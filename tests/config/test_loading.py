import os
from pathlib import Path

import pytest
from config_files import COMMON, TWO_RUNS

from skillopt_ci.config.loading import load, parse_override, read_layers, run_names
from skillopt_ci.config.yaml import lookup, plain
from skillopt_ci.errors import ConfigError


def test_a_minimal_file_has_all_defaults(load_with):
    config = load_with().config
    assert (config.run, config.train.batch_size, config.git.remote) == ("triage", 40, "origin")


def test_the_file_wins_over_its_base_and_overrides_over_both(load_with, write):
    write("train: {batch_size: 1, seed: 1, num_epochs: 1}", "base.yaml")
    text = "_base_: base.yaml\ntrain: {seed: 2, num_epochs: 2}\n"
    train = load_with(text, "train.num_epochs=3").config.train
    assert (train.batch_size, train.seed, train.num_epochs) == (1, 2, 3)


def test_an_override_reaches_into_a_role(load_with):
    role = load_with("", "model.target.model=other").config.model.target
    assert (role.provider, role.model) == ("simulated", "other")
    # the last one wins, and a whole number may stand for a fraction
    assert load_with("", "train.seed=1", "train.seed=2").config.train.seed == 2
    assert load_with("", "evaluation.max_error_rate=1").config.evaluation.max_error_rate == 1.0
    tasks = load_with("", "tasks={split_dir: data}").config.tasks  # another way to give tasks
    assert tasks.model_dump() == {"split_dir": "data", "limit": 0}


def test_root_is_the_folder_of_the_file_that_was_asked_for(write, tmp_path):
    write("run: a\nskill: s\ntasks: {path: t}\n", "shared/base.yaml")
    roles = "model: {target: &r {provider: simulated, model: m}, optimizer: *r}"
    main = write(f"_base_: ../shared/base.yaml\n{roles}", "runs/main.yaml")
    loaded = load(main)
    assert (loaded.root, loaded.file) == (tmp_path / "runs", main)
    assert load(Path(os.path.relpath(main))).root.is_absolute()


def test_all_problems_are_told_at_once_in_the_order_of_the_file(complaint):
    text = "run: a b\nskill: 3\ntasks: {path: t}\nmodel: {}\ntrain:\n  sed: 1\n  batch_size: 0\n"
    assert [line.split(": ")[0] for line in str(complaint(text, "git.remot=x")).splitlines()] == [
        "skillopt.yaml:1",
        "skillopt.yaml:2",
        "skillopt.yaml:4",
        "skillopt.yaml:4",
        "skillopt.yaml:6",
        "skillopt.yaml:7",
        "-o git.remot",
    ]


def test_an_error_carries_file_and_line(write):
    file = write("run: a\nskill: s\ntasks: {path: t}\nmodel: 4\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert (caught.value.file, caught.value.line) == (file, 4)
    write("train: {seed: x}", "base.yaml")
    with pytest.raises(ConfigError, match=r"base\.yaml:1: train\.seed: expected a whole number"):
        load(write("_base_: base.yaml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=4", 4),
        ("a.b=[x, 1.5]", ["x", 1.5]),
        ("a.b={c: true}", {"c": True}),
        ("a.b=null", None),
        ("a.b=", None),
        ("a.b=x=y", "x=y"),
        ("a . b='4'", "4"),
    ],
)
def test_values_are_yaml(text, value):
    assert plain(parse_override(text)) == {"a": {"b": value}}


def test_an_override_is_its_own_place():
    assert str(lookup(parse_override("a.b={c: 1}"), ("a", "b", "c")).mark) == "-o a.b"
    with pytest.raises(ConfigError, match=r"^-o a\.b: not valid YAML"):
        parse_override("a.b=[1")


@pytest.mark.parametrize("text", ["train.seed", "", "=sk-secret", "a..b=1", ".a=1"])
def test_without_key_or_equals_sign_it_says_what_is_expected(text):
    with pytest.raises(ConfigError, match=r"expected section\.key=value") as caught:
        parse_override(text)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("train: {batchsize: 3}", "train.batchsize: unknown key; did you mean 'batch_size'?"),
        ("batch_size: 3\n", "batch_size: unknown key; did you mean train.batch_size?"),
        ("train: {learning_rate: 3}", "unknown key; did you mean optimizer.learning_rate?"),
        ("cache: {zzz: 3}", "cache.zzz: unknown key; known here: enabled, path"),
        ("budget: {run: {cals: 3}}", "budget.run.cals: unknown key; did you mean 'calls'?"),
        ("train: {seed: '4'}", "train.seed: expected a whole number, found '4'"),
        ("train: {seed: true}", "train.seed: expected a whole number, found true"),
        ("train: {seed: 1.5}", "train.seed: expected a whole number, found 1.5"),
        ("scorer: {type: number, abs_tol: x}", "scorer.abs_tol: expected a number, found 'x'"),
        ("train: {batch_size: 0}", "expected a value greater than 0, found 0"),
        ("train: 4", "train: expected a mapping, found 4"),
        ("train:", "train: expected a mapping, found nothing"),
        ("prompts: ''", "prompts: expected text that is not empty, found ''"),
        ("prompts: [a]", "prompts: expected text, found a list"),
        ("gradient: {failure_only: 1}", "expected true or false, found 1"),
        ("budget: {run: {cost_usd: .inf}}", "expected a finite number, found inf"),
        (
            "optimizer: {lr_scheduler: cosin}",
            "'cosin' is not one of constant, linear, cosine, autonomous; did you mean 'cosine'?",
        ),
    ],
)
def test_messages_say_what_is_wrong_and_what_was_expected(complaint_with, extra, message):
    assert complaint_with(extra).startswith("skillopt.yaml:7: ")
    assert message in complaint_with(extra)


def test_a_limit_on_cost_needs_to_know_what_the_agent_costs(complaint_with, load_with):
    limited = "budget: {step: {cost_usd: 1}}\nrollout: {solver: {type: external, agent: %s}}\n"
    complaint = complaint_with(limited % "codex")
    assert "budget: a limit on cost needs `rollout.solver.price`" in complaint
    for agent in ("codex, price: {input: 1, output: 2}", "claude-code"):
        load_with(limited % agent)


def test_the_example_of_a_mapping_is_one_of_that_section(complaint_with):
    complaint = complaint_with("rollout: {solver: chat}")
    assert "rollout.solver: expected a mapping such as {type: chat}, found 'chat'" in complaint


@pytest.mark.parametrize("path", [r"'skills\a\SKILL.md'", r'"skills\table\\SKILL.md"', r"a\b.md"])
def test_a_path_with_backslashes_is_explained(complaint_with, path):
    told = complaint_with(f"prompts: {path}")
    assert "prompts: " in told
    assert "separate folders with /" in told


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("{type: exat}", "scorer.type: 'exat' is not one of exact,"),
        ("{type: exat}", "did you mean 'exact'?"),
        ("{answer: tag}", "scorer.type: missing: one of exact,"),
        ("exact", "scorer: expected a mapping such as {type: exact}, found 'exact'"),
        ("{type: contains, contain: [a]}", "scorer.contain: unknown key; did you mean 'contains'?"),
        ("{type: contains, contains: a}", "scorer.contains: expected a list, found 'a'"),
        ("{type: contains, match: al}", "scorer.match: 'al' is not one of all, any"),
        ("{type: json, schema: 4}", "scorer.schema: expected a mapping, found 4"),
        ("{type: json, schema: {type: no-type}}", "scorer.schema: not a JSON Schema"),
        ("{type: regex, pattern: '('}", "scorer.pattern: not a regular expression"),
        ("{type: regex}", "scorer.pattern: missing. Python regular expression"),
        ("{type: any, of: []}", "scorer.of: expected a list that is not empty, found a list"),
        ("{type: all, of: [{type: f1}, {type: f2}]}", "scorer.of.1.type: 'f2' is not one of"),
        ("{type: all, of: [{type: all, of: [4]}]}", "scorer.of.0.of.0: expected a mapping such as"),
        ("{type: weighted, of: [{type: f1}], weights: [1, 2]}", "scorer: 1 scorers but 2 weights"),
        ("{type: weighted, of: [{type: f1}, {type: f1}], weights: [1e308, 1e308]}", "at most 1.8"),
        ("{type: weighted, of: [{type: f1}], weights: [0]}", "weights must be above 0"),
        ("{type: rubric, rubrik: x}", "did you mean 'rubric'?"),
    ],
)
def test_scorer_messages_are_about_the_type_that_was_named(complaint_with, scorer, message):
    text = complaint_with("scorer: " + scorer)
    assert message in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("tasks", "messages"),
    [
        ("{path: a, splt: '1:1:1'}", ["tasks.splt: unknown key; did you mean 'split'?"]),
        ("{path: a, split: '1:1'}", ["tasks.split: '1:1' does not fit. Shares train:selection"]),
        ("{train: a}", ["tasks.selection: missing. Task file on which the gate"]),
        ("{pth: a}", ["tasks.path: missing", "tasks.pth: unknown key; did you mean 'path'?"]),
        ("{split_dr: a}", ["tasks.split_dir: missing", "tasks.split_dr: unknown key"]),
        ("tasks.jsonl", ["tasks: expected a mapping such as {path: tasks.jsonl}, found"]),
    ],
)
def test_tasks_messages_are_about_the_way_that_was_meant(complaint, tasks, messages):
    roles = "model: {target: &r {provider: simulated, model: m}, optimizer: *r}"
    lines = complaint(f"run: a\nskill: s\ntasks: {tasks}\n{roles}").splitlines()
    assert len(lines) == len(messages)
    assert all(message in line for message, line in zip(messages, sorted(lines), strict=True))


def test_a_missing_key_says_what_it_is_for(complaint):
    text = complaint("run: a\nskill: s\ntasks: {path: t}\nmodel:\n  target: {model: m}\n")
    assert "skillopt.yaml:5: model.target.provider: missing. Who serves the model" in text
    assert "skillopt.yaml:4: model.optimizer: missing. Reads trajectories" in text


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("api_key=sk-secret", "-o model.target.api_key: a key does not belong in a file"),
        (
            "api_key_env=sk-secret",
            "model.target.api_key_env: the value (not shown) does not fit. Name of the env",
        ),
        ("headers.x-custom=sk-secret\u2026", "headers.x-custom: the value (not shown) does not"),
        ("headers=sk-secret", "headers: expected a mapping, found the value (not shown)"),
        ("base_url=https://me:sk-secret@host/v1", "a key does not belong in the address"),
        ("base_url=https://sk-secret@host/v1", "a key does not belong in the address"),
        ("base_url='https://host/v1?api-key=sk-secret'", "nor anything from `?`"),
        ("base_url='http://me:sk-secret@[x/v1'", "invalid IPv6 address, found the value (not sh"),
    ],
)
def test_a_key_in_clear_is_refused_and_not_repeated(complaint_with, override, said):
    text = complaint_with("", f"model.target.{override}")
    assert said in text
    assert "sk-secret" not in text


@pytest.mark.parametrize("url", ["api.openai.com/v1", "file:///etc", "https://", "http://h\\n"])
def test_an_address_must_be_one_of_the_web(complaint_with, url):
    assert "model.target.base_url: " in complaint_with("", f'model.target.base_url="{url}"')


def test_text_that_is_not_unicode_is_refused(complaint_with):
    assert "characters that are not Unicode" in complaint_with('prompts: "\\ud800"\n')


def test_an_override_that_is_wrong_is_shown_or_the_nearest_key(complaint_with):
    assert "author_name: expected text, found 2048" in complaint_with("", "git.author_name=2048")
    assert complaint_with("", "train.bach_size=3") == (
        "-o train.bach_size: unknown key; did you mean 'batch_size'?"
    )


def test_bases_come_first_and_are_found_beside_the_file_that_names_them(write):
    write("a: 1", "shared/root.yaml")
    write("_base_: root.yaml\nb: 2", "shared/team.yaml")
    main = write("_base_: shared/team.yaml\nc: 3")
    assert [plain(layer) for layer in read_layers(main)] == [{"a": 1}, {"b": 2}, {"c": 3}]
    main = write("_base_: b.yaml", "a.yaml")
    write("\n_base_: ./a.yaml", "b.yaml")
    with pytest.raises(ConfigError, match=r"b\.yaml:2: .*a\.yaml → .*b\.yaml → .*a\.yaml"):
        read_layers(main)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("_base_: skillopt.yaml", "circle"),
        ("run: a\n_base_: [x.yaml, y.yaml]", r"yaml:2: _base_: expected one file, .* found a list"),
        ("run: a\n_base_: nowhere.yaml", r"skillopt\.yaml:2: .*nowhere\.yaml cannot be read"),
        *((f"_base_: {base}", "expected one file, which") for base in ("", "4", "{}", "''")),
        *((text, r"yaml:1: expected a mapping of sections") for text in ("- a", "word", "4")),
    ],
)
def test_what_cannot_be_built_on_is_refused(write, text, said):
    with pytest.raises(ConfigError, match=said):
        read_layers(write(text))


@pytest.mark.parametrize(
    ("name", "said"),
    [("none.yaml", r"none\.yaml: cannot be read: No such"), (".", "Is a directory")],
)
def test_a_file_that_cannot_be_opened_is_named(tmp_path, name, said):
    with pytest.raises(ConfigError, match=said):
        read_layers(tmp_path / name)


def test_other_encodings_are_refused_but_a_byte_order_mark_does_no_harm(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes("run: caf\xe9".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8 text: save the file"):
        read_layers(file)
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfrun: a")
    assert plain(read_layers(file)[0]) == {"run": "a"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "skillopt.yaml"


@pytest.fixture
def two(file: Path) -> Path:
    file.write_text(TWO_RUNS)
    return file


def test_a_run_is_laid_over_what_stands_around_the_list(two):
    invoices, letters = (load(two, run=name).config for name in run_names(two))
    train, target = invoices.train, letters.model.target
    assert (invoices.run, train.num_epochs, train.batch_size) == ("invoices", 2, 8)
    assert (letters.skill, letters.train.num_epochs) == ("skills/letters/SKILL.md", 4)
    assert (target.model, target.retries) == ("other", 3)
    assert load(two, ["train.num_epochs=7"], run="invoices").config.train.num_epochs == 7


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, r"which run\? Name one with --run: invoices, letters"),
        ("leters", "did you mean 'letters'"),
        ("zzz", "its runs: invoices, letters"),
    ],
)
def test_a_run_that_is_not_named_is_asked_for(two, name, said):
    with pytest.raises(ConfigError, match=said):
        load(two, run=name)


@pytest.mark.parametrize("run", [None, "plain"])
def test_the_only_run_may_be_named_or_not(file, run):
    for text in ("run: plain\nskill: s.md\n", "runs: [{run: plain, skill: s.md}]\n"):
        file.write_text(text + COMMON)
        assert load(file, run=run).config.run == "plain"
        assert run_names(file) == ("plain",)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ("[]", "expected a list of runs"),
        ("{a: b}", "expected a list of runs"),
        ("[{skill: s.md}]", "needs its `run:`"),
        ("[{run: a, skill: s.md}, {run: a, skill: t.md}]", "'a' stands here a second time"),
    ],
)
def test_a_bad_list_is_told_with_its_place(file, runs, said):
    file.write_text(f"{COMMON}\nruns: {runs}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        load(file, run="a")
    assert caught.value.line == 7


def test_a_problem_of_a_run_points_at_its_own_line(file):
    file.write_text(TWO_RUNS.replace("num_epochs: 2", "num_epoch: 2"))
    with pytest.raises(ConfigError, match="num_epochs") as caught:
        load(file, run="invoices")
    assert caught.value.line == 10

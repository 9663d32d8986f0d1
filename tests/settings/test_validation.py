from collections.abc import Callable

import pytest

from skillopt_ci.config.loading import Loaded

Complaint = Callable[..., str]

SCORER = "scorer: "


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
def test_messages_say_what_is_wrong_and_what_was_expected(
    complaint_with: Complaint, extra: str, message: str
) -> None:
    assert complaint_with(extra).startswith("skillopt.yaml:7: ")
    assert message in complaint_with(extra)


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
        (
            "{type: weighted, of: [{type: f1}], weights: [1, 2]}",
            "scorer: 1 scorers but 2 weights",
        ),
        ("{type: rubric, rubrik: x}", "did you mean 'rubric'?"),
    ],
)
def test_scorer_messages_are_about_the_type_that_was_named(
    complaint_with: Complaint, scorer: str, message: str
) -> None:
    text = complaint_with(SCORER + scorer)
    assert message in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("tasks", "messages"),
    [
        ("{path: a, splt: '1:1:1'}", ["tasks.splt: unknown key; did you mean 'split'?"]),
        ("{path: a, split: '1:1'}", ["tasks.split: '1:1' does not fit. Shares train:selection"]),
        ("{train: a}", ["tasks.selection: missing. Task file that the gate judges"]),
        (
            "{pth: a}",
            ["tasks.path: missing", "tasks.pth: unknown key; did you mean 'path'?"],
        ),
        (
            "{split_dr: a}",
            ["tasks.split_dir: missing", "tasks.split_dr: unknown key"],
        ),
        ("tasks.jsonl", ["tasks: expected a mapping such as {path: tasks.jsonl}, found"]),
    ],
)
def test_tasks_messages_are_about_the_way_that_was_meant(
    complaint: Complaint, tasks: str, messages: list[str]
) -> None:
    roles = "model: {target: &r {provider: simulated, model: m}, optimizer: *r}"
    lines = complaint(f"run: a\nskill: s\ntasks: {tasks}\n{roles}").splitlines()
    assert len(lines) == len(messages)
    assert all(message in line for message, line in zip(messages, sorted(lines), strict=True))


def test_a_missing_key_says_what_it_is_for(complaint: Complaint) -> None:
    text = complaint("run: a\nskill: s\ntasks: {path: t}\nmodel:\n  target: {model: m}\n")
    assert "skillopt.yaml:5: model.target.provider: missing. Who serves the model" in text
    assert "skillopt.yaml:4: model.optimizer: missing. Reads trajectories" in text


def test_a_key_in_clear_is_refused_and_not_repeated(complaint_with: Complaint) -> None:
    text = complaint_with("", "model.target.api_key=sk-secret")
    assert text.startswith("-o model.target.api_key: a key does not belong in a file")
    assert "sk-secret" not in text


def test_a_key_given_as_the_name_of_its_variable_is_not_repeated(
    complaint_with: Complaint,
) -> None:
    text = complaint_with("", "model.target.api_key_env=sk-secret")
    assert "model.target.api_key_env: the value (not shown) does not fit. Name of the env" in text
    assert "sk-secret" not in text


@pytest.mark.parametrize("url", ["api.openai.com/v1", "file:///etc/passwd", "https://"])
def test_an_address_must_be_one_of_the_web(complaint_with: Complaint, url: str) -> None:
    assert "model.target.base_url: " in complaint_with("", f"model.target.base_url='{url}'")


def test_a_key_inside_an_address_is_refused_and_not_repeated(complaint_with: Complaint) -> None:
    text = complaint_with("", "model.target.base_url=https://me:sk-secret@host/v1")
    assert "a key does not belong in the address" in text
    assert "sk-secret" not in text


def test_text_that_is_not_unicode_is_refused(complaint_with: Complaint) -> None:
    assert "characters that are not Unicode" in complaint_with('prompts: "\\ud800"\n')


def test_an_override_of_an_unknown_key_names_the_nearest(complaint_with: Complaint) -> None:
    assert complaint_with("", "train.bach_size=3") == (
        "-o train.bach_size: unknown key; did you mean 'batch_size'?"
    )


def test_a_whole_number_may_stand_for_a_fraction(
    load_with: Callable[..., Loaded],
) -> None:
    assert load_with("", "evaluation.max_error_rate=1").config.evaluation.max_error_rate == 1.0

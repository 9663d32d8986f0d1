"""Commands as lists, and images without containers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from command_line import in_process, overrides

if TYPE_CHECKING:
    from tests.conftest import Checkout
    from tests.known_faults.conftest import Cli


COMPUTER = "rollout.computer={type: unconfined}"


@pytest.mark.parametrize(
    "setting",
    [
        'rollout.task={setup: [["true", "all"]]}',
        'rollout.task={submission: {command: ["true"]}}',
        'rollout.task.setup=[["true", "all"]]',
        'rollout.task.submission.command=["true"]',
        'scorer={type: computer, command: ["true"]}',
        'scorer={type: computer, setup: [["true"]], command: "true"}',
        'scorer={type: computer, report: {command: ["true"]}}',
    ],
)
def test_a_command_may_be_a_list_in_an_override(checkout, setting):
    done = in_process(checkout.folder, "config", "--json", *overrides(COMPUTER, setting))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    "block",
    [
        'rollout: {task: {setup: [["true", "all"]]}, computer: {type: unconfined}}\n',
        'rollout: {task: {submission: {command: ["true"]}}, computer: {type: unconfined}}\n',
    ],
)
def test_a_command_may_be_a_list_in_the_configuration(checkout, block):
    text = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    checkout.write("skillopt.yaml", text + block)
    done = in_process(checkout.folder, "config", "--json")
    assert done.returncode == 0, done.stderr


def test_a_command_may_be_a_list_in_a_scorer_file(checkout):
    checkout.write("scorer.yaml", 'type: computer\ncommand: ["true"]\n')
    done = in_process(checkout.folder, "rescore", "--scorer", "scorer.yaml", "-o", COMPUTER)
    assert "expected a list" not in done.stderr


@pytest.mark.parametrize("kind", ["sandbox", "unconfined"])
def test_an_image_is_refused_where_no_container_is_made(checkout, kind):
    setting = f"rollout.computer={{type: {kind}, image: python}}"
    done = in_process(checkout.folder, "check", "-o", setting)
    assert done.returncode == 2, done.stdout
    assert "image" in done.stdout + done.stderr


# Files of other tools, as far as they can be used.


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "javascript", "value": "output.length > 3"},
        {"type": "python", "value": "len(output) > 3"},
    ],
    ids=lambda assertion: assertion["type"],
)
def test_promptfoos_other_tests_are_tasks_all_the_same(checkout, cli, assertion):
    tests = [
        {"vars": {"q": f"Say {number}"}, "assert": [{"type": "contains", "value": str(number)}]}
        for number in range(19)
    ]
    tests.append({"vars": {"q": "Say more"}, "assert": [assertion]})
    promptfoo = {"prompts": ["{{q}}"], "providers": ["echo"], "tests": tests}
    checkout.write("promptfooconfig.yaml", yaml.safe_dump(promptfoo))
    file = checkout.folder / "skillopt.yaml"
    ours = yaml.safe_load(file.read_text(encoding="utf-8"))
    kept = {key: value for key, value in ours.items() if key not in ("tasks", "scorer")}
    environment = {"type": "promptfoo", "file": "promptfooconfig.yaml", "split": "2:1:7"}
    checkout.write("skillopt.yaml", yaml.safe_dump({**kept, "environment": environment}))
    done = cli(checkout.folder, "check", "--json")
    errors = [one for one in json.loads(done.out)["findings"] if one["level"] == "error"]
    assert errors == []


# A grade says what the answer says.

CHOICES = {"A": "Paris", "B": "New York", "C": "Rome"}


@pytest.mark.parametrize(
    "answer",
    [
        "A good reason makes it C",
        "A city like Rome",
        "A close call between B and C",
        "A, but C is better",
        "A, C because both are cities",
        "A - C",
        "A, no: C",
    ],
)
def test_a_sentence_that_begins_with_a_or_names_other_labels_does_not_choose_a(answer):
    from skillopt_ci.config.scorers import ChoiceScorer
    from skillopt_ci.messages import Message
    from skillopt_ci.scorers.text import grade_choice
    from skillopt_ci.tasks.task import Task

    task = Task("t", (Message("user", "Which?"),), references=("A",))
    spec = ChoiceScorer(type="choice", choices=CHOICES)
    assert grade_choice(spec, task, answer).hard == 0


@pytest.mark.parametrize("reference", ["A, C", "A and C", "A C", "A | C", "A, E"])
def test_several_labels_are_all_asked_for_or_refused(reference):
    from skillopt_ci.config.scorers import ChoiceScorer
    from skillopt_ci.messages import Message
    from skillopt_ci.scorers.text import check_choice_references, grade_choice
    from skillopt_ci.tasks.task import Task

    task = Task("t", (Message("user", "Which?"),), references=(reference,))
    spec = ChoiceScorer(type="choice", choices=CHOICES)
    if check_choice_references(spec, task) is None:
        assert grade_choice(spec, task, "A").hard == 0
        assert grade_choice(spec, task, "A, C").hard == 1


# Several runs in one repository.


def listed(checkout: Checkout, *runs: tuple[str, str]) -> None:
    """Let the configuration list these runs, each with its skill."""
    file = checkout.folder / "skillopt.yaml"
    whole = yaml.safe_load(file.read_text(encoding="utf-8"))
    common = {key: value for key, value in whole.items() if key not in ("run", "skill")}
    entries = [{"run": run, "skill": skill} for run, skill in runs]
    file.write_text(yaml.safe_dump({**common, "runs": entries}), encoding="utf-8")
    for _, skill in runs:
        checkout.write(skill, "# Items\n")
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "--allow-empty", "-m", "List runs")


def named(checkout: Checkout, cli: Cli, *words: str) -> str:
    """The name of the run that the options mean."""
    done = cli(checkout.folder, *words, "config")
    assert done.code == 0, done.err
    return str(yaml.safe_load(done.out)["run"])


@pytest.mark.parametrize("words", [("--run", "second"), ()], ids=["named", "unnamed"])
def test_a_second_init_adds_a_run(checkout, cli, words):
    second = "skills/second/SKILL.md"
    assert cli(checkout.folder, "init", "--yes", "--skill", second, *words).code == 0
    found = json.loads(cli(checkout.folder, "discover", "--json").out)
    trained = {one["skill"]: one["run"] for one in found["runs"]}
    assert trained.keys() == {"skills/SKILL.md", second}
    assert named(checkout, cli, "--run", trained[second]) != "demo"


def test_a_second_file_names_a_run_of_its_own(checkout, cli):
    for name in ("one", "two"):
        more = ("-c", f"{name}.yaml", "--skill", f"skills/{name}/SKILL.md")
        assert cli(checkout.folder, "init", "--yes", *more).code == 0
    runs = [named(checkout, cli, "-c", f"{name}.yaml") for name in ("one", "two")]
    assert len(set(runs)) == 2


def test_a_file_does_not_take_the_name_of_a_run_elsewhere(checkout, cli):
    assert cli(checkout.folder, "init", "--yes", "-c", "demo.yaml", "--skill", "b.md").code == 0
    assert named(checkout, cli, "-c", "demo.yaml") == "demo-2"


CLASHES = {
    "the same skill": (("a", "skills/SKILL.md"), ("b", "skills/SKILL.md")),
    "names that differ in case": (("a", "skills/SKILL.md"), ("A", "skills/other/SKILL.md")),
}


@pytest.mark.parametrize("command", ["check", "estimate", "config"])
@pytest.mark.parametrize("clash", CLASHES)
def test_runs_that_clash_are_refused(checkout, cli, clash, command):
    listed(checkout, *CLASHES[clash])
    assert cli(checkout.folder, "--run", "a", command).code == 2


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(("--run", "b"), "step --run b"), (("-c", "other.yaml"), "step -c other.yaml")],
)
def test_what_is_said_to_come_next_names_the_run(checkout, cli, words, wanted):
    if words[0] == "--run":
        listed(checkout, ("a", "skills/SKILL.md"), ("b", "skills/other/SKILL.md"))
    else:
        checkout.git("mv", "skillopt.yaml", "other.yaml")
        checkout.git("commit", "--quiet", "-m", "Move")
    done = cli(checkout.folder, *words, "check")
    assert done.code == 0, done.err
    assert "Ready to train" in done.out
    assert wanted in done.out

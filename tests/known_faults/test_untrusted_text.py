"""Text that people outside may write must neither keep a command busy nor act where it is shown."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType

import pytest
import yaml
from command_line import Cli, in_process, overrides, skillopt_ci

from skillopt_ci.config.scorers import ChoiceScorer
from skillopt_ci.messages import Message
from skillopt_ci.scorers.text import check_choice_references, grade_choice
from skillopt_ci.tasks.task import Task
from tests.conftest import Checkout

#: Aliases of aliases: nine levels of nine, which expand to hundreds of millions of texts.
_LEVELS = "abcdefghi"
LAUGHS = ", ".join(
    ["a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    + [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(_LEVELS)]
)
ONE_TASK = ("evaluation.test_env_num=1",)
SKILL = "skills/SKILL.md"


class OutOfTime(BaseException):
    """Something took too long; no command takes it for an error of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime from what computes longer, however busy the machine is."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime(f"not done within {seconds} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_a_pathological_pattern_of_the_regex_scorer_ends_in_time(checkout, model_server):
    model_server.answer = lambda system, prompt: "a" * 60 + "!"
    scorer = 'scorer={type: regex, pattern: "^(a+)+$"}'
    line = ("eval", SKILL, "--json", *overrides(scorer, *ONE_TASK))
    done = skillopt_ci(checkout.folder, *line, seconds=20)
    assert done.returncode == 0, done.stderr


def test_a_text_of_blank_lines_is_made_harmless_in_time():
    from skillopt_ci.sanitize import harmless

    text = "a0" + "\n" * 50_000 + "end"
    with time_limit(5):
        assert harmless(text) == text


@pytest.mark.parametrize("line", ["\n", "\n- ", "\n```\n"])
def test_the_guard_judges_a_long_addition_in_time(line):
    from skillopt_ci.training.guard import order_to_the_optimizer

    with time_limit(5):
        assert order_to_the_optimizer("Begin" + line * 30_000 + "end", "") == ""


def test_a_skill_with_a_long_run_of_spaces_is_read_in_time():
    from skillopt_ci.skill.regions import reading

    text = "Begin" + " " * 100_000 + "end"
    with time_limit(5):
        assert reading(text) == text


NESTED = "<!-- SLOW_UPDATE_" * 3_000 + "<!-- SLOW_UPDATE_START -->" + "START -->" * 3_000


@pytest.mark.parametrize("text", ["<!-- SLOW_UPDATE_START -->\n" * 8_000, NESTED])
def test_a_skill_with_many_markers_is_read_in_time(text):
    from skillopt_ci.skill.regions import protected_parts, reading, unprotected

    with time_limit(5):
        assert "SLOW_UPDATE_START" not in unprotected(text)
        assert reading(text) == text.strip()
        assert protected_parts(text)


@pytest.mark.parametrize(
    ("front", "told"),
    [
        ("".join(f"key{number}: v\n" for number in range(10_000)), "was not checked"),
        ("? " * 3_000, "nested too deeply"),
        ("name: " + "[" * 9_000, "Invalid YAML"),
        ("name: &a [x]\ndescription: *a", "Invalid YAML"),
    ],
)
def test_front_matter_of_strangers_is_checked_in_time(front, told):
    from pathlib import Path

    from skillopt_ci.skill.validation import problems

    with time_limit(10):
        found = problems(f"---\n{front}\n---\nBody.\n", Path("skills/x/SKILL.md"))
    assert any(told in problem.message for problem in found)


def test_json_nested_too_deeply_is_the_fault_of_who_wrote_it():
    from skillopt_ci.agents.builtin import BadArguments, submitted
    from skillopt_ci.messages import ToolCall
    from skillopt_ci.model.providers import parsed
    from skillopt_ci.model.retry import TransientFailure

    deep = "[" * 100_000
    with pytest.raises(BadArguments, match="not JSON"):
        submitted(ToolCall("1", "submit", deep))
    with pytest.raises(TransientFailure):
        parsed(deep.encode())


@pytest.mark.parametrize("line", ["\n", "ab "])
def test_texts_that_repeat_are_compared_in_time(line):
    from skillopt_ci.skill.diff import diff_rows

    with time_limit(10):
        rows = diff_rows("Begin" + line * 30_000, "Begin" + line * 30_000 + "end")
    assert [row for row in rows if row.kind == "added"]


@pytest.mark.parametrize("words", [("check",), ("check", "-o", f"train={{{LAUGHS}}}")])
def test_aliases_that_expand_past_a_limit_are_refused(checkout, words):
    if len(words) == 1:
        checkout.write("skillopt.yaml", f"{{{LAUGHS}}}")
    with time_limit(5):
        done = in_process(checkout.folder, *words)
    assert done.returncode == 2, done.stderr
    assert "alias" in done.stdout + done.stderr


def test_aliases_of_a_task_file_are_refused_as_well(checkout):
    task = f"{{id: a0, prompt: Item 0 of kind a, references: a0, metadata: {{{LAUGHS}}}}}"
    checkout.write("tasks/train.yaml", f"[{task}]")
    # in a process of its own: texts are joined where no signal is heard
    line = ("check", "-o", "tasks.train=tasks/train.yaml")
    done = skillopt_ci(checkout.folder, *line, seconds=20)
    assert done.returncode == 2, done.stderr
    assert "alias" in done.stdout + done.stderr


# Commands as lists, and images without containers.

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
def test_a_command_may_be_a_list(checkout, setting):
    done = in_process(checkout.folder, "config", "--json", *overrides(COMPUTER, setting))
    assert done.returncode == 0, done.stderr
    text = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    key, _, value = setting.partition("=")
    if key == "rollout.task":
        in_file = f"rollout: {{task: {value}, computer: {{type: unconfined}}}}\n"
        checkout.write("skillopt.yaml", text + in_file)
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
    ours = yaml.safe_load((checkout.folder / "skillopt.yaml").read_text(encoding="utf-8"))
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
    task = Task("t", (Message("user", "Which?"),), references=("A",))
    spec = ChoiceScorer(type="choice", choices=CHOICES)
    assert grade_choice(spec, task, answer).hard == 0


@pytest.mark.parametrize("reference", ["A, C", "A and C", "A C", "A | C", "A, E"])
def test_several_labels_are_all_asked_for_or_refused(reference):
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

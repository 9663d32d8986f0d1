"""What is said of a run: all that is true, wherever it is read, and each number in one meaning."""

import json
import re
import shutil
import socket

import pytest
from command_line import in_process, overrides

from tests.conftest import Checkout, Workshop

SKILL = "skills/SKILL.md"
#: The training of one epoch, with nothing after it.
SHORT = ("train.num_epochs=1", "evaluation.eval_test=false")
LABEL = re.compile(r"±[^\n]*(95 %|standard error)|(95 %|standard error)[^\n]*±")


@pytest.fixture
def merged(workshop: Workshop) -> Checkout:
    """A clone of what was merged, with the skills branch gone and origin out of reach."""
    origin = workshop.origin()
    trainer = workshop.clone(origin, "trainer")
    trainer.step("git.remote=origin")
    trainer.git("merge", "--quiet", "skillopt/demo")
    trainer.git("push", "--quiet", "origin", "main", ":skillopt/demo")
    clone = workshop.clone(origin, "clone")
    shutil.rmtree(origin)
    return clone


@pytest.mark.parametrize("default_branch", ["known", "unknown"])
@pytest.mark.parametrize("words", [("log",), ("status",), ("show", "1"), ("report",)])
def test_a_run_is_read_without_origin(merged, words, default_branch):
    if default_branch == "unknown":  # as after `git fetch` without `git clone`
        merged.git("remote", "set-head", "origin", "--delete")
    done = in_process(merged.folder, *words)
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "origin" in told, "it does not say that this may be old"


def test_a_run_is_read_though_origin_never_answers(merged, monkeypatch):
    monkeypatch.setattr("skillopt_ci.git.remote.ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/x.git"
        merged.git("remote", "set-url", "origin", url)
        read, trained = in_process(merged.folder, "log"), in_process(merged.folder, "step")
    assert read.returncode == 0, read.stderr
    assert "origin cannot be read: this is from main as of" in read.stderr
    assert trained.returncode == 5
    assert "no answer within 0.3 seconds" in trained.stderr


def test_report_of_a_shallow_clone_is_written_without_origin(workshop):
    origin = workshop.origin()
    workshop.clone(origin, "trainer").run(*SHORT, "git.remote=origin")
    clone = workshop.clone(origin, "clone", "--depth=1", "--no-single-branch")
    shutil.rmtree(origin)
    done = in_process(clone.folder, "report")
    assert done.returncode == 0, done.stderr
    assert "origin cannot be read, and this clone is shallow" in done.stderr


def test_an_epochs_end_that_only_wrote_memory_is_not_in_flight(checkout, model_server):
    model_server.memory = "Look at the kind first."
    checkout.run(*SHORT, "optimizer.use_meta_skill=true")
    assert in_process(checkout.folder, "report").returncode == 0
    page = (checkout.folder / "skillopt-report.html").read_text(encoding="utf-8")
    badge = r'<span class="badge">([^<]*)</span> <span class="headline"><bdi>End of epoch 1'
    (fate,) = re.findall(badge, page)
    assert fate != "in flight"


def test_a_step_and_an_evaluation_mean_the_same_by_plus_and_minus(checkout):
    stepped = in_process(checkout.folder, "step").stdout
    told = in_process(checkout.folder, "eval", "initial", "current", "--split", "selection").stdout
    pattern = r"\+0\.250 ± ([\d.]+)"
    (first,), (second,) = re.findall(pattern, stepped), re.findall(pattern, told)
    assert first == second


def test_the_end_of_a_run_says_what_plus_and_minus_mean(checkout):
    told = in_process(checkout.folder, "run", *overrides("train.num_epochs=1")).stdout
    end = told[told.index("Run demo") :]
    assert "±" in end
    assert LABEL.search(end)


def test_an_evaluation_that_measured_nothing_says_so_in_json(checkout, model_server):
    model_server.trouble = lambda prompt: (500, "down")
    done = in_process(checkout.folder, "eval", SKILL, "--json", "-o", "evaluation.test_env_num=2")
    assert done.returncode == 5
    (skill,) = json.loads(done.stdout).get("skills", [{}])
    assert skill.get("errors") == 2


def test_the_evaluation_of_one_skill_has_the_scores_of_its_tasks_in_json(checkout, model_server):
    done = in_process(checkout.folder, "eval", SKILL, "--json", "-o", "evaluation.test_env_num=2")
    assert done.returncode == 0, done.stderr
    asked = {prompt.rsplit("Item ", 1)[1] for prompt in model_server.prompts}
    names = {f"{item.split()[-1]}{item.split()[0]}" for item in asked}
    assert len(names) == 2
    assert [name for name in names if f'"{name}"' not in done.stdout] == []


def test_the_end_of_a_retried_attempt_belongs_to_its_last_try(checkout):
    mark = checkout.folder / "tried"
    settings = overrides(
        "evaluation.test_env_num=1",
        'rollout.solver={type: scripted, commands: ["true"], answer: a200}',
        "rollout.computer={type: unconfined}",
        "rollout.programs_can_read_secrets=true",  # the first try leaves a mark outside
        f'rollout.task={{setup: ["test -e {mark} || {{ touch {mark}; exit 1; }}"]}}',
    )
    assert in_process(checkout.folder, "eval", SKILL, *settings).returncode == 0
    (log,) = (checkout.folder / ".git").rglob("*-eval.jsonl")
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [event["retry"] for event in events if event["type"] == "work_ended"] == [1]
    assert [event["retry"] for event in events if event["type"] == "attempt_ended"] == [1]


def test_an_evaluation_of_a_real_target_is_not_called_simulated(checkout):
    optimizer = "model.optimizer=simulated/simulated-optimizer"
    done = in_process(checkout.folder, "eval", SKILL, "-o", optimizer)
    assert done.returncode == 0, done.stderr
    assert "(simulated models)" not in done.stdout


@pytest.mark.parametrize(
    ("file", "text", "setting"),
    [
        ("base.yaml", "train: {batch_size: 3}\n", "_base_: base.yaml"),
        ("prompts/agent.md", "{skill}\n", "prompts: prompts"),
        (
            "grade.py",
            "def grade(task, answer):\n    return float(answer in task['references'])\n",
            "scorer: {type: python, entry: grade.py:grade, answer: tag}",
        ),
        ("grade.sh", "exit 1\n", "scorer: {type: command, command: [sh, grade.sh]}"),
    ],
    ids=["base", "prompts", "scorer", "command"],
)
def test_step_names_what_was_never_committed(checkout, file, text, setting):
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8").splitlines()
    replaced = tuple(line.partition(":")[0] for line in setting.splitlines())
    config = [line for line in config if not line.startswith(replaced)]
    checkout.write("skillopt.yaml", "\n".join([*config, setting, ""]))
    checkout.write(".gitignore", "prompts/\n")
    checkout.git("commit", "--quiet", "--all", "--message=Configure")
    checkout.write(file, text)
    done = in_process(checkout.folder, "step")
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if file in line]
    assert any("differs from what is committed" in line for line in told), done.stderr


@pytest.mark.parametrize("file", ["skillopt.yaml", "tasks/train.jsonl", SKILL])
def test_a_step_says_what_differs_from_the_commit(checkout, file):
    text = (checkout.folder / file).read_text(encoding="utf-8")
    changes = {
        "skillopt.yaml": lambda: text.replace("batch_size: 4", "batch_size: 3"),
        "tasks/train.jsonl": lambda: text.replace("kind a", "kind b"),
        SKILL: lambda: f"{text}\nThe letter comes first.\n",
    }
    checkout.write(file, changes[file]())
    done = in_process(checkout.folder, "step")
    assert done.returncode == 0, done.stderr
    about = [line for line in (done.stdout + done.stderr).splitlines() if file in line]
    assert [line for line in about if re.search(r"commit|differ|main", line)] != []

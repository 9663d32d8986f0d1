import asyncio
import json
import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Cli, in_process, overrides

from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.train import outcome_json, print_outcome, summary
from skillopt_ci.errors import ExitCode
from skillopt_ci.git.locks import run_lock
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import silent
from skillopt_ci.training.trainer import Outcome, advance
from tests.cli.conftest import BRANCH
from tests.conftest import RULES, SKILL, Checkout


def test_exactly_one_step_is_done_and_the_next_goes_on_from_there(cli, fresh, git):
    done = cli(fresh, "step")
    assert done.code == 0
    assert done.out.startswith("Step 1 of 2, epoch 1 (simulated models)\n")
    # the score stands beside what was measured, and no hash does
    (line,) = [one for one in done.err.splitlines() if "16 of 16 tasks measured" in one]
    assert re.fullmatch(
        r"✓ selection +0\.\d{3} → 0\.\d{3}, 16 of 16 tasks measured( \(\d+ s\))?", line
    )
    assert not re.search(r"\b[0-9a-f]{10}\b", done.out + done.err)
    subjects = git(fresh, "log", "--format=%s", "--first-parent", "skillopt/quickstart")
    assert [line.split()[0] for line in subjects.splitlines()] == ["Merge", "Start", "Write"]
    assert "Step 2 of 2" in cli(fresh, "step").out
    assert cli(fresh, "step").code == 3


def test_an_override_is_for_one_command_and_not_for_the_run(cli, fresh, git, edit):
    given = ("-o", "evaluation={sel_env_num: 8}", "-o", "optimizer.lr_scheduler=constant")
    assert cli(fresh, "step", "--json", *given).json["tasks"] == 8
    done = cli(fresh, "step", "--json")
    assert (done.json["tasks"], "lr_scheduler (constant → linear)" in done.err) == (16, True)
    assert '"kept"' not in git(fresh, "show", "skillopt/quickstart:.skillopt/quickstart/state.json")
    edit(fresh / "skillopt.yaml", "num_epochs: 1", "num_epochs: none")
    assert cli(fresh, "step", "-o", "train={num_epochs: 2}").code == 0


def test_json_is_the_only_thing_on_stdout(cli, fresh, git):
    done = cli(fresh, "step", "--json")
    found = done.json
    assert list(found) == [
        *("kind", "step", "epoch", "action", "score_before", "score_after", "commit", "tasks"),
        *("edits", "calls", "tokens", "cost_usd", "seconds", "simulated"),
    ]
    assert found["commit"] == git(fresh, "rev-parse", "skillopt/quickstart")
    assert (found["step"], found["tasks"], found["simulated"]) == (1, 16, True)
    assert "Step 1 of 2" in done.err


def test_quiet_is_one_line_or_the_object_alone(cli, fresh):
    done = cli(fresh, "-q", "step")
    assert (done.err, done.out.count("\n")) == ("", 1)
    assert done.out.startswith("Step 1 of 2, epoch 1 (simulated models): ")
    done = cli(fresh, "step", "-q", "--json")
    assert (done.json["step"], done.err) == (2, "")


def test_step_verbose_tells_what_show_tells(cli, fresh):
    told = cli(fresh, "-v", "step").out
    assert "edit 1" in told
    assert "  rollout" in told


def test_nothing_left_is_exit_code_3(cli, trained):
    done = cli(trained, "step", "--json")
    message = "Nothing left to do: all epochs are trained."
    error = {"type": "NothingToDo", "message": message, "hint": ""}
    assert (done.code, done.json) == (3, {"error": error, "exit_code": 3})
    assert done.err.endswith(f"{message}\n")


@pytest.mark.parametrize("words", ["step", "step --until-candidate", "run"])
def test_the_step_after_the_last_one_does_what_finish_does(cli, done, words):
    tested = ("--json", "-o", "evaluation.eval_test=true")
    planned = cli(done, "plan", *tested).json
    assert (planned["phase"], planned["attempts"]) == ("test", 0)
    assert "the end of epoch 1 waits" in cli(done, *words.split(), *tested, *SCHEDULED).err
    assert cli(done, "run", *tested, *SCHEDULED).code == 3  # else it would test again after it
    step = words.replace("run", "step").split()  # else the run ends before test tasks are added
    assert cli(done, *step, *tested, "-o", "tasks.test=null").code == 3
    ended = cli(done, *words.split(), *tested)
    assert (ended.code, len(ended.json["best"]["test"]["tasks"])) == (0, 16)
    assert cli(done, "status", *tested).json["next"] == "done"
    assert cli(done, *words.split(), *tested).code == 3


@pytest.mark.parametrize("words", ["step", "step --until-candidate", "run"])
def test_a_score_after_the_last_step_is_something_done(cli, done, words):
    assert cli(done, "revert", "1").code == 0
    assert "(merged steps: none)" in cli(done, "revert", "9").err
    scored = cli(done, *words.split())
    assert (scored.code, "Measured again: step 1 taken back\n" in scored.out) == (0, True)
    assert cli(done, *words.split()).code == 3


def test_a_budget_is_exit_code_4_and_what_was_paid_for_is_kept(cli, fresh):
    whole = cli(fresh, "step", "--json", "-o", "budget.step.calls=20")
    assert whole.code == 4
    assert json.loads(whole.out)["exit_code"] == 4
    assert "budget.step.calls is used up: 20 of 20" in whole.err
    assert cli(fresh, "step", "-q").code == 0


def test_a_server_that_is_gone_is_exit_code_5(cli, fresh, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-this-test")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        base = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    role = {"provider": "openai", "api_key_env": "OPENAI_API_KEY", "base_url": base}
    over = [word for key, value in role.items() for word in ("-o", f"model.target.{key}={value}")]
    done = cli(fresh, "step", *over)
    assert done.code == 5
    assert "warning: The target model does not answer: the connection failed" in done.err
    assert "error: The target model cannot be reached: the connection failed" in done.err
    assert "sk-secret" not in done.err + done.out


def test_a_lost_race_is_exit_code_6(cli, fresh):
    with run_lock(fresh / ".git", "quickstart"):
        done = cli(fresh, "step")
    assert done.code == 6
    assert "quickstart" in done.err


def test_an_epochs_end_alone_is_something_done(cli, done):
    words = ("step", "--until-candidate", "-o", "optimizer.use_slow_update=true")
    first = cli(done, *words)
    assert (first.code, first.out.startswith("End of epoch 1")) == (0, True)
    assert cli(done, *words).code == 3


def test_what_a_kill_or_a_power_loss_left_is_put_right_and_told(cli, fresh, git):
    assert cli(fresh, "step", "-q").code == 0
    tip = git(fresh, "rev-parse", "skillopt/quickstart")
    (fresh / ".git/refs/heads/skillopt/quickstart").write_bytes(b"")
    lock = fresh / ".git/packed-refs.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    status = cli(fresh, "status")
    assert status.code == 2
    assert "skillopt/quickstart is broken in this repository" in status.err
    done = cli(fresh, "step")
    assert (done.code, done.out.partition(",")[0]) == (0, "Step 2 of 2")
    told = " ".join(done.err.split())
    assert f"skillopt/quickstart was broken, as after a power loss: restored to {tip[:12]}" in told
    assert "packed-refs.lock" in told
    assert not lock.exists()
    git(fresh, "merge-base", "--is-ancestor", tip, "skillopt/quickstart")


def test_all_steps_are_done_and_then_none_is_left(cli, fresh, git):
    done = cli(fresh, "run")
    assert done.code == 0
    assert re.findall(r"^Step (\d) of 2", done.out, re.MULTILINE) == ["1", "2"]
    # in a file no line is ragged
    for text in (done.out, done.err):
        assert not re.search(r"[ \t\r]$|\n\n\n|\x1b", text, re.MULTILINE)
        assert not text.startswith("\n")
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.err.endswith("All epochs are trained. This command did 2 steps.\n")
    stages = {line.split()[1] for line in done.err.splitlines() if line[:1] in ("·", "✓")}
    assert {"rollout", "reflect", "aggregate", "select", "update", "selection"} <= stages
    assert "Finish" not in git(fresh, "log", "--format=%s", "skillopt/quickstart")
    assert cli(fresh, "run").code == 3


def test_a_budget_ends_the_run_after_a_whole_step(cli, fresh, git):
    done = cli(fresh, "run", "-o", "budget.run.calls=60")
    assert done.code == 0
    assert "The budget has room for no further step. This command did 1 step." in done.err
    state = json.loads(git(fresh, "show", "skillopt/quickstart:.skillopt/quickstart/state.json"))
    assert 0 < state["usage"]["calls"] <= 60
    assert cli(fresh, "step", "-q").out.startswith("Step 2 of 2")


def test_solving_every_selection_task_ends_the_run(cli, checkout, model_server, monkeypatch):
    monkeypatch.setenv("DEMO_KEY", "sk-demo-key")
    model_server.plan = ["\n- ".join(RULES.values())]
    why, folder = "very selection task is solved", checkout.folder
    confirmed = ("-o", "evaluation.confirm=0.5", "-o", "evaluation.eval_test=false")
    assert cli(folder, "step", *confirmed).code == 0
    assert "  the last confirmation if one is due, " in cli(folder, "status", *confirmed).out
    planned = cli(folder, "plan", "--json", *confirmed).json
    assert (planned["phase"], planned["matrix"]) == ("test", {"shard": ["1/1"]})
    assert cli(folder, "rollout", "--shard", "1/1", *confirmed).code == 0
    half = cli(folder, "step", "--until-candidate", "--json", *confirmed)
    assert (half.code, half.json["kind"]) == (0, "confirm")
    over = cli(folder, "run", "-o", "evaluation.eval_test=true")
    assert f"E{why}, so no change can score higher. This command did 0 steps." in over.err
    assert re.search(r"^fresh attempts +(Confirmed|Provisional): ", over.out, re.MULTILINE)
    note = '{"version": 1, "notes": [{"id": "issue-1", "author": "wen", "text": "Shorter."}]}'
    (folder / "notes.json").write_text(note, encoding="utf-8")
    for words in (["step"], ["plan"], ["rollout", "--shard", "1/1"]):
        if words != ["step"]:  # what reviewers ask for reopens the run
            assert cli(folder, *words, "--notes", "notes.json").code == 0
        nothing = cli(folder, *words)
        assert (nothing.code, f"Nothing left to do: e{why}" in nothing.err) == (3, True)
    assert (
        f"plan             e{why}, so no change can score higher, 1 done"
        in cli(folder, "check").out
    )
    assert f"e{why}" in " ".join(cli(folder, "status").out.split())
    # not of a score that does not hold any more
    for changed in (("-o", "evaluation.sel_env_num=4"), ()):
        if not changed:
            checkout.commit("skills/SKILL.md", "# Changed\n", branch="skillopt/demo")
        assert "4 steps in 2 epochs, 1 done" in cli(folder, "check", *changed).out
        assert "step 2 of 4" in " ".join(cli(folder, "status", *changed).out.split())
        assert "Next step" in cli(folder, "estimate", *changed).out


TESTED = ("-o", "evaluation.eval_test=true")


def test_a_run_ends_with_its_summary(cli, ended, git):
    subject = git(ended, "log", "-1", "--format=%s", "skillopt/quickstart")
    assert subject.startswith("Finish training: ")
    assert subject.endswith(" on 16 test tasks")
    before = git(ended, "rev-parse", "skillopt/quickstart")
    assert cli(ended, "finish", *TESTED).code == ExitCode.NOTHING_TO_DO
    assert cli(ended, "run", *TESTED).code == ExitCode.NOTHING_TO_DO
    assert git(ended, "rev-parse", "skillopt/quickstart") == before


def test_the_summary_is_a_table_or_one_object(cli, ended):
    found = cli(ended, "finish", *TESTED, "-o", "evaluation.test_env_num=8", "--json")
    assert found.json["best"]["test"]["hard"] >= found.json["initial"]["test"]["hard"]
    assert found.json["commit"]
    assert found.json["seconds"] > 0
    for told in ("best − initial", "epoch 1", "simulated models", "n=8"):
        assert told in found.err


def test_quiet_leaves_verdicts_and_the_test_score(cli, fresh):
    *steps, test = cli(fresh, "-q", "run", *TESTED, "--no-progress").out.splitlines()
    steps = [line.partition(":")[0] for line in steps]
    assert steps == [f"Step {number} of 2, epoch 1 (simulated models)" for number in (1, 2)]
    assert re.fullmatch(r"Test score \(simulated models\): 0\.\d{3} → 0\.\d{3} \[.*\] n=\d+", test)


ENDS = ("-o", "optimizer.use_slow_update=true", "-o", "optimizer.use_meta_skill=true")
SCHEDULED = (*ENDS, "-o", "schedule.slow_update=scheduled")


@pytest.fixture
def due(cli: Cli, fresh: Path) -> Path:
    """The first epoch's steps are done, its end is not."""
    for _ in range(2):
        assert cli(fresh, "-q", "step", *SCHEDULED).code == 0
    return fresh


def test_nothing_due_is_exit_code_3(cli, fresh):
    cli(fresh, "-q", "step", *SCHEDULED)
    done = cli(fresh, "slow-update", "--json", "--no-progress", *SCHEDULED)
    assert (done.code, done.json["exit_code"]) == (3, 3)
    assert done.err == "Nothing left to do: no epoch's end is due.\n"


def test_a_score_that_was_due_is_told(cli, fresh):
    cli(fresh, "-q", "step", *SCHEDULED)
    text = Checkout(fresh).show(BRANCH, "skills/ledger/SKILL.md")
    Checkout(fresh).commit("skills/ledger/SKILL.md", f"{text}\nBe brief.\n", branch=BRANCH)
    done = cli(fresh, "slow-update", "--json", "--no-progress", *SCHEDULED)
    assert (done.code, done.json["kind"]) == (0, "measure")


def test_an_end_that_is_due_is_done_once(cli, due):
    done = cli(due, "slow-update", *SCHEDULED)
    assert done.code == 0
    assert "End of epoch 1, after step 2 (simulated models)" in done.out
    assert "make room for guidance" in done.out
    assert "end of epoch: merged, the" in cli(due, "log").out  # and wrapped: gate was open
    assert cli(due, "status", "--json").json["epoch_end"] == 1


def test_json_is_one_object(cli, due):
    found = cli(due, "slow-update", "--json", *SCHEDULED).json
    assert list(found) == [
        *("kind", "epoch", "step", "action", "score_before", "score_after", "commit", "tasks"),
        *("pairs", "guidance", "meta_skill", "calls", "tokens", "cost_usd", "seconds"),
        "simulated",
    ]
    assert (found["kind"], found["epoch"], found["step"]) == ("slow_update", 1, 2)
    assert (found["action"], found["guidance"]) == ("force_accept", "inject_placeholder")
    assert found["score_before"] == found["score_after"]


@pytest.mark.parametrize("option", ["-q", "-v"])
def test_a_slow_update_is_one_line_or_all_that_show_tells(cli, due, option):
    done = cli(due, "slow-update", option, *SCHEDULED)
    if option == "-v":
        assert cli(due, "show", "--epoch", "1").out.strip() in done.out
    else:
        assert done.out.startswith("End of epoch 1, after step 2 (simulated models): merged")
        assert (done.out.count("\n"), done.err) == (1, "")


def test_step_tells_of_the_end_before_it(cli, due):
    done = cli(due, "step", "--json", *ENDS, "-o", "train.num_epochs=2")
    kinds = [line.partition(",")[0] for line in done.out.splitlines()]
    assert kinds == ['{"kind": "slow_update"', '{"kind": "step"']


def test_run_of_three_epochs_tells_every_end(cli, fresh):
    done = cli(fresh, "run", "--json", *ENDS, "-o", "train.num_epochs=3")
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["kind"], one["epoch"]) for one in told] == [
        (kind, epoch) for epoch in (1, 2, 3) for kind in ("step", "step", "slow_update")
    ]
    assert [one["pairs"] for one in told if one["kind"] == "slow_update"] == [0, 16, 16]
    assert done.err.endswith("This command did 6 steps and 3 epoch ends.\n")


@pytest.fixture
def settings(fresh: Path) -> Globals:
    return Globals(environ=dict(os.environ), cwd=fresh)


@pytest.fixture
def outcome(settings: Globals) -> Outcome:
    found = asyncio.run(advance(open_run(settings, silent)))
    assert found.is_step
    return found


def test_the_object_has_plain_values_that_agree_with_the_record(outcome):
    found = json.loads(json.dumps(outcome_json(outcome)))
    assert found["action"] == outcome.decision.action
    assert found["score_after"] == outcome.decision.score_after
    assert found["tokens"] == outcome.record.usage.tokens > 0


def test_an_unknown_cost_is_null_and_a_step_without_a_candidate_has_no_score(outcome):
    record = outcome.record.model_copy(update={"usage": Usage(calls=3, cost_usd=None)})
    assert outcome_json(replace(outcome, record=record))["cost_usd"] is None
    nothing = {"action": "skip_no_patches", "score_after": None, "measurement": None}
    skipped = outcome.decision.model_copy(update=nothing)
    record = outcome.record.model_copy(update={"decision": skipped})
    empty = replace(outcome, record=record)
    assert outcome_json(empty)["score_after"] is None
    assert summary(empty).endswith(": nothing proposed")


def test_a_hostile_reason_reaches_no_terminal(outcome, settings, capsys):
    decision = outcome.decision.model_copy(update={"reason": "\x1b[2J\n::error::pwned"})
    hostile = replace(outcome, record=outcome.record.model_copy(update={"decision": decision}))
    print_outcome(hostile, settings)
    told = capsys.readouterr().out
    assert "pwned" in told
    assert "\x1b" not in told
    assert "::error" not in told


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
    assert re.search(r"±[^\n]*(95 %|standard error)|(95 %|standard error)[^\n]*±", end)


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

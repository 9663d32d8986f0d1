import io
from pathlib import Path
from typing import Any

import pytest
from action_world import make_job

from skillopt_ci.action.git_access import git_environment
from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.action.job import Ended, announce, command_line, execute, meaning, workspace_of
from skillopt_ci.action.outputs import JobLog, Printed
from skillopt_ci.cli.main import describe
from skillopt_ci.demo import write_example
from skillopt_ci.errors import BudgetExhausted, ConfigError, ExitCode, SkilloptError, UsageError


def run(folder: Path, line: list[str], seen: list[Printed] | None = None) -> tuple[Ended, str]:
    stream = io.StringIO()
    ended = execute(make_job(folder, stream), line, (seen if seen is not None else []).append)
    return ended, stream.getvalue()


def line_of(command: Command, folder: Path, **inputs: Any) -> list[str]:
    return command_line(make_job(folder, inputs=Inputs(**inputs)), command)


@pytest.mark.parametrize(("command", "more"), [("step", []), ("propose", ["--until-candidate"])])
def test_command_line_of_a_step_takes_rollout_files(tmp_path, command, more):
    files = [tmp_path / "r1", tmp_path / "r2"]
    for file in files:
        file.touch()
    overrides = ("train.seed=1", "-x")
    given = {"config": "a.yaml", "overrides": overrides, "rollouts": ("r*", f"{tmp_path}/r1")}
    assert line_of(Command(command), tmp_path, **given) == [
        "step",
        *("--config", "a.yaml", "--override", "train.seed=1", "--override", "-x", "--json"),
        *more,
        *(word for file in files for word in ("--rollouts", str(file))),
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Command.EVAL, ["--split", "selection"]),
        (Command.PLAN, ["--shards", "3"]),
        (Command.ROLLOUT, ["--shard", "2/3", "--output", "KEEP/answers.jsonl"]),
        (Command.REPORT, ["--output", "KEEP/skillopt-report-r.html"]),
        (Command.STATUS, ["--json"]),
    ],
)
def test_command_line_has_the_options_of_its_command(tmp_path, command, words):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".git").touch()  # of a submodule, which has no folder of its own
    (tmp_path / ".git").mkdir()
    given = {"run": "r", "split": "selection", "shards": 3, "shard": "2/3"}
    line = line_of(command, tmp_path, directory="sub", **given)
    keep = str(tmp_path / ".git" / "skillopt-ci")
    assert line[-len(words) :] == [word.replace("KEEP", keep) for word in words]


def test_results_are_values_and_talk_is_in_the_log(tmp_path):
    write_example(tmp_path)
    seen: list[Printed] = []
    ended, log = run(tmp_path, ["config", "--json"], seen)
    assert (ended.exit_code, list(ended.results)) == (0, seen)
    assert seen[0]["run"] == "quickstart"
    assert log.startswith("::group::skillopt-ci config\n::stop-commands::t\n")
    assert '"quickstart"' not in log


def test_what_ends_a_command_is_told_apart_from_commands(tmp_path):
    (tmp_path / "skillopt.yaml").write_text("run: '::error::x'\n", encoding="utf-8")
    ended, log = run(tmp_path, ["step", "--json"])
    assert ended.exit_code == ExitCode.USAGE
    assert ended.failure is not None
    assert ended.results == ()
    assert log.endswith("\n::t::\n::endgroup::\n")
    ended, _ = run(tmp_path, ["stepp", "--json"])
    assert ended.exit_code == ExitCode.USAGE


def test_an_answer_says_what_to_do_and_leaves_a_crash_report_in_the_log():
    wrong = describe(ConfigError("no key a\nno key b", hint="Remove it."), [])
    assert Ended(2, failure=wrong).told.endswith(" no key a<br>\nno key b\n\nRemove it.")
    crash = describe(ZeroDivisionError("division by zero"), [])
    assert Ended(ExitCode.DEFECT, failure=crash).told.endswith("Please report the job's log.")


def announced(error: BaseException, workspace: Path) -> str:
    stream = io.StringIO()
    announce(JobLog(stream, lambda: "t"), describe(error, []), error, workspace)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("code", "result", "fails"),
    [
        (ExitCode.DONE, "done", False),
        (ExitCode.NOTHING_TO_DO, "nothing-to-do", False),
        (ExitCode.BUDGET, "inconclusive", False),
        (ExitCode.LOST_RACE, "superseded", False),
        (ExitCode.USAGE, "failed", True),
        (ExitCode.INFRASTRUCTURE, "failed", True),
        (ExitCode.DEFECT, "failed", True),
        (ExitCode.INTERRUPTED, "failed", True),
        (77, "failed", True),
    ],
)
def test_what_an_exit_code_means_for_the_job(code, result, fails):
    assert (meaning(code).result, meaning(code).job_fails) == (result, fails)


def test_an_error_stands_at_its_file_and_line_if_that_is_in_the_workspace(tmp_path):
    error = ConfigError("no such key", file=tmp_path / "conf" / "skillopt.yaml", line=4, hint="run")
    text = announced(error, tmp_path)
    assert text.startswith("::error title=skillopt-ci cannot start,file=conf/skillopt.yaml,line=4:")
    assert "no such key%0Arun" in text
    text = announced(ConfigError("x", file=Path("skillopt.yaml"), line=1), tmp_path)
    assert "file=skillopt.yaml,line=1" in text
    assert "file=" not in announced(ConfigError("x", file=Path("/etc/x.yaml"), line=1), tmp_path)


def test_a_budget_is_a_warning_and_no_verdict(tmp_path):
    text = announced(BudgetExhausted("the step's calls are used up"), tmp_path)
    assert text.startswith("::warning title=Inconclusive%3A a budget was reached::")
    assert announced(SkilloptError("a\n::add-mask::b\r\n::error::c"), tmp_path).count("\n") == 1


def test_elsewhere_than_on_a_runner_every_missing_variable_is_named():
    with pytest.raises(UsageError) as caught:
        workspace_of({"GITHUB_WORKSPACE": "/w", "GITHUB_EVENT_NAME": ""})
    assert "GITHUB_EVENT_NAME, GITHUB_EVENT_PATH, GITHUB_REPOSITORY" in str(caught.value)


def test_what_github_com_leaves_out_is_known(tmp_path):
    environ = git_environment(tmp_path, "", "job", {})
    assert "http.https://github.com/.extraheader" in environ.values()
    debug = make_job(tmp_path, environ={"RUNNER_DEBUG": "1"})
    assert (make_job(tmp_path).settings.verbosity, debug.settings.verbosity) == (0, 1)

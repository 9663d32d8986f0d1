import io
from pathlib import Path

import pytest

from skillopt_ci.action.job import announce, meaning
from skillopt_ci.action.outputs import JobLog
from skillopt_ci.cli.main import describe
from skillopt_ci.errors import BudgetExhausted, ConfigError, ExitCode, SkilloptError


def announced(error: BaseException, workspace: Path) -> str:
    stream = io.StringIO()
    announce(JobLog(stream, lambda: "t"), describe(error, [], {}), error, workspace)
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
def test_what_an_exit_code_means_for_the_job(code: int, result: str, fails: bool) -> None:
    assert (meaning(code).result, meaning(code).job_fails) == (result, fails)


def test_an_error_stands_at_its_file_and_line(tmp_path: Path) -> None:
    error = ConfigError("no such key", file=tmp_path / "conf" / "skillopt.yaml", line=4, hint="run")
    text = announced(error, tmp_path)
    assert text.startswith(
        "::error title=skillopt-ci cannot start,file=conf/skillopt.yaml,line=4::"
    )
    assert "no such key%0Arun" in text


def test_a_relative_file_is_one_of_the_workspace(tmp_path: Path) -> None:
    text = announced(ConfigError("x", file=Path("skillopt.yaml"), line=1), tmp_path)
    assert "file=skillopt.yaml,line=1" in text


def test_a_file_elsewhere_is_not_pointed_at(tmp_path: Path) -> None:
    assert "file=" not in announced(ConfigError("x", file=Path("/etc/x.yaml"), line=1), tmp_path)


def test_a_budget_is_a_warning_and_no_verdict(tmp_path: Path) -> None:
    text = announced(BudgetExhausted("the step's calls are used up"), tmp_path)
    assert text.startswith("::warning title=Inconclusive%3A a budget was reached::")


def test_a_message_is_one_command_whatever_it_says(tmp_path: Path) -> None:
    text = announced(SkilloptError("a\n::add-mask::b\r\n::error::c"), tmp_path)
    assert text.count("\n") == 1

from collections.abc import Callable
from pathlib import Path

from skillopt_ci.errors import ExitCode

TESTED = ("-o", "evaluation.eval_test=true")


def test_a_run_ends_with_its_summary(cli, ended: Path, git: Callable[..., str]) -> None:
    subject = git(ended, "log", "-1", "--format=%s", "skillopt/quickstart")
    assert subject.startswith("Finish training: ")
    assert subject.endswith(" on 16 test tasks")


def test_a_finished_run_has_nothing_left_to_do(cli, ended: Path, git: Callable[..., str]) -> None:
    before = git(ended, "rev-parse", "skillopt/quickstart")
    assert cli(ended, "finish", *TESTED).code == ExitCode.NOTHING_TO_DO
    assert cli(ended, "run", *TESTED).code == ExitCode.NOTHING_TO_DO
    assert git(ended, "rev-parse", "skillopt/quickstart") == before


def test_the_summary_is_printed(cli, ended: Path) -> None:
    result = cli(ended, "finish", *TESTED, "-o", "evaluation.test_env_num=8")
    assert result.code == ExitCode.DONE
    for told in ("best − initial", "epoch 1", "simulated models", "n=8"):
        assert told in result.out


def test_programs_get_the_summary_as_one_object(cli, ended: Path) -> None:
    found = cli(ended, "finish", "--json", *TESTED, "-o", "evaluation.test_env_num=8").json
    assert found["best"]["test"]["hard"] >= found["initial"]["test"]["hard"]
    assert found["commit"]
    assert found["seconds"] > 0


def test_without_a_test_the_run_ends_with_its_last_step(
    cli, fresh: Path, git: Callable[..., str]
) -> None:
    assert cli(fresh, "-q", "run").code == ExitCode.DONE
    assert "Finish" not in git(fresh, "log", "--format=%s", "skillopt/quickstart")

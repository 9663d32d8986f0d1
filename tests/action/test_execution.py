import io
from pathlib import Path

from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.action.job import Ended, execute, words
from skillopt_ci.action.outputs import JobLog, Result
from skillopt_ci.cli.options import Globals
from skillopt_ci.demo.quickstart import write_example
from skillopt_ci.errors import ExitCode

KEEP = Path("/keep/a")


def run(folder: Path, line: list[str], seen: list[Result] | None = None) -> tuple[Ended, str]:
    stream = io.StringIO()
    settings = Globals(environ={}, cwd=folder, json=True)
    take = (seen if seen is not None else []).append
    return execute(line, settings, JobLog(stream, lambda: "t"), take), stream.getvalue()


def test_the_words_of_a_step() -> None:
    inputs = Inputs(config="a.yaml", overrides=("train.seed=1", "-x"))
    assert words(Command.STEP, inputs, KEEP, ("r1", "r2")) == [
        "step",
        *("--config", "a.yaml", "--override", "train.seed=1", "--override", "-x", "--json"),
        *("--rollouts", "r1", "--rollouts", "r2"),
    ]


def test_a_proposal_is_a_step_up_to_its_candidate() -> None:
    line = words(Command.PROPOSE, Inputs(), KEEP, ("r1",))
    assert line[0] == "step"
    assert line[-3:] == ["--until-candidate", "--rollouts", "r1"]


def test_other_commands_have_words_of_their_own() -> None:
    inputs = Inputs(split="selection", shards=3, shard="2/3")
    assert words(Command.EVAL, inputs, KEEP)[-2:] == ["--split", "selection"]
    assert words(Command.PLAN, inputs, KEEP)[-2:] == ["--shards", "3"]
    assert words(Command.ROLLOUT, inputs, KEEP)[-3:] == ["2/3", "--output", "/keep/a/answers.jsonl"]
    page = words(Command.REPORT, inputs, KEEP)[-2:]
    assert page == ["--output", "/keep/a/skillopt-report.html"]
    assert words(Command.STATUS, inputs, KEEP)[-1] == "--json"


def test_results_are_values_and_talk_is_in_the_log(tmp_path: Path) -> None:
    write_example(tmp_path)
    seen: list[Result] = []
    ended, log = run(tmp_path, ["config", "--json"], seen)
    assert ended.exit_code == 0
    assert list(ended.results) == seen
    assert seen[0]["run"] == "quickstart"
    assert log.startswith("::group::skillopt-ci config\n::stop-commands::t\n")
    assert '"quickstart"' not in log


def test_what_ends_a_command_is_told_apart_from_commands(tmp_path: Path) -> None:
    (tmp_path / "skillopt.yaml").write_text("run: '::error::x'\n", encoding="utf-8")
    ended, log = run(tmp_path, ["step", "--json"])
    assert ended.exit_code == ExitCode.USAGE
    assert ended.failure is not None
    assert ended.results == ()
    assert log.endswith("\n::t::\n::endgroup::\n")


def test_an_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, ["stepp", "--json"])
    assert ended.exit_code == ExitCode.USAGE

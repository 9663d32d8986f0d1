import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from skillopt_ci.cli.main import CLOSED_PIPE, COMMANDS, cli, main
from skillopt_ci.errors import BudgetExhausted, ConfigError, ExitCode

ERRORS = {
    "config": ConfigError("no such key", file=Path("a.yaml"), line=3, hint="Did you mean run?"),
    "budget": BudgetExhausted("the budget of 3 calls is spent"),
    "defect": KeyError("x"),
    "interrupt": KeyboardInterrupt(),
}


@click.group()
def app() -> None:
    pass


@app.command()
@click.argument("name")
@click.option("--json", is_flag=True)
def fail(name: str, json: bool) -> None:
    raise ERRORS[name]


@app.command()
def nothing() -> ExitCode:
    return ExitCode.NOTHING_TO_DO


@app.command()
def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()


def test_a_command_returns_its_exit_code() -> None:
    assert main(["nothing"], group=app) == 3


@pytest.mark.parametrize(
    ("name", "code"), [("config", 2), ("budget", 4), ("defect", 1), ("interrupt", 130)]
)
def test_every_failure_has_its_exit_code(name: str, code: int) -> None:
    assert main(["fail", name], group=app) == code


def test_a_failure_is_a_message_and_a_hint_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fail", "config"], group=app)
    told = capsys.readouterr()
    assert told.err == "error: a.yaml:3: no such key\nDid you mean run?\n"
    assert told.out == ""


def test_with_json_a_failure_is_also_one_object_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["fail", "budget", "--json"], group=app)
    told = json.loads(capsys.readouterr().out)
    assert told["exit_code"] == 4
    assert told["error"] == {
        "type": "BudgetExhausted",
        "message": "the budget of 3 calls is spent",
        "hint": "",
    }


def test_a_command_line_that_cannot_be_parsed_is_json_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--json", "--nonsense"]) == 2
    assert "--nonsense" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_defect_shows_no_traceback_but_names_its_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    main(["fail", "defect"], group=app)
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "skillopt-ci-crash-" in told


def test_sigterm_ends_like_ctrl_c_and_says_that_work_is_saved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(["terminate"], group=app) == 130
    assert "saved" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().out


def test_a_closed_stdout_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "skillopt_ci", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.returncode == CLOSED_PIPE
    assert done.stderr == b""


def test_help_imports_nothing_but_click() -> None:
    code = (
        "import sys; from skillopt_ci.cli.main import main; main(['--help']);"
        "print(sorted({'pydantic', 'rich', 'openai', 'yaml', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists(name: str) -> None:
    assert isinstance(cli.get_command(click.Context(cli), name), click.Command)

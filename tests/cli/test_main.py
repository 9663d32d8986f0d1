import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pydantic_core import SchemaError

from skillopt_ci import __version__
from skillopt_ci.cli import main
from skillopt_ci.errors import BudgetExhausted, ConfigError, ExitCode

ERRORS = {
    "config": ConfigError("no such key", file=Path("a.yaml"), line=3, hint="Did you mean run?"),
    "budget": BudgetExhausted("the budget of 3 calls is spent"),
    "defect": KeyError("a text that mentions KeyboardInterrupt"),
    "interrupt": KeyboardInterrupt(),
    "question": click.Abort(),
    "wrapped": SchemaError("Error building `literal` serializer:\n  KeyboardInterrupt: "),
    "threads": RuntimeError("can't start new thread"),
}
CODES = {"config": 2, "budget": 4, "defect": 1, "interrupt": 130, "wrapped": 130, "threads": 5}


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
@click.argument("number", type=int)
def end(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_every_failure_has_its_exit_code_and_a_command_returns_its_own(name, code):
    assert main.main(["fail", name], group=app) == code
    assert main.main(["nothing"], group=app) == 3


def test_a_failure_is_a_message_and_a_hint_on_stderr_and_json_on_stdout(capsys):
    ends = [main.main(["fail", name], group=app) for name in ("config", "question")]
    told = "error: a.yaml:3: no such key|Did you mean run?|error: interrupted|Nothing is saved.|"
    assert (ends, *capsys.readouterr()) == ([2, 130], "", told.replace("|", "\n"))
    main.main(["fail", "budget", "--json"], group=app)
    found = json.loads(capsys.readouterr().out)
    error = {"type": "BudgetExhausted", "message": "the budget of 3 calls is spent", "hint": ""}
    assert (found["exit_code"], found["error"]) == (4, error)
    assert main.main(["--json", "--nonsense"]) == 2
    assert "--nonsense" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_defect_is_told_with_all_that_a_report_needs(capsys):
    assert main.main(["fail", "defect"], group=app) == 1
    told = capsys.readouterr().err
    assert re.search("itself failed .*\nPlease report it.*Traceback", told, re.DOTALL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_end_like_ctrl_c_and_say_that_work_is_saved(capsys, number):
    before = signal.signal(number, signal.SIG_DFL)  # nohup, under which tests may run, ignores one
    assert main.main(["end", f"{number:d}"], group=app) == 130
    assert "saved" in capsys.readouterr().err
    assert signal.signal(number, before) is signal.SIG_DFL


def test_sigterm_cancels_what_runs_in_a_background_job_that_nohup_began():
    seen: list[type[BaseException]] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            seen.append(type(error))
            raise

    before = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGHUP)}
    try:
        with pytest.raises(KeyboardInterrupt), main.terminate_is_interrupt():
            asyncio.run(work())
        assert all(signal.getsignal(number) is signal.SIG_IGN for number in before)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert seen == [asyncio.CancelledError]


def test_without_a_command_the_help_is_shown(capsys):
    assert main.main([]) == 2
    groups = re.findall(r"^(\w+):$", capsys.readouterr().out, re.MULTILINE)
    assert groups == ["Options", "Start", "Train", "Read", "CI", "Advanced"]


def test_a_closed_stdout_is_quiet():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "skillopt_ci", "--help"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (ExitCode.CLOSED_PIPE, b"")


def test_help_imports_nothing_but_click():
    code = (
        "import sys; from skillopt_ci.cli.main import main; main(['--help']);"
        "print(sorted({'pydantic', 'rich', 'openai', 'yaml', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_of_the_table_exists_and_its_help_fits_a_terminal(name, capsys):
    assert main.main([name, "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


BROKEN = 'raise RuntimeError("imported")\n'
GREET = 'import click\n\n@click.command()\ndef greet_command():\n    click.echo("hello")\n'


@pytest.fixture
def group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> main.LazyGroup:
    package = f"lazy_{abs(hash(request.node.name))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "greet.py").write_text(GREET, encoding="utf-8")
    (tmp_path / package / "broken.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    commands = {
        "greet": (f"{package}.greet", "Say hello.", "Here"),
        "broken": (f"{package}.broken", "Fail on import.", "Here"),
    }
    monkeypatch.setattr(main, "COMMANDS", commands)
    return main.LazyGroup("app")


@pytest.mark.parametrize(
    ("word", "code", "told"),
    [
        ("greet", 0, "hello\n"),
        ("--help", 0, "Fail on import."),
        ("gret", 2, "no command 'gret'. Did you mean 'greet'?"),
        ("--gret", 2, "No such option"),
    ],
)
def test_a_command_is_found_by_name_or_the_nearest_is_suggested(group, word, code, told):
    result = CliRunner().invoke(group, [word])
    assert (result.exit_code, told in result.output) == (code, True)


def test_only_the_named_command_is_imported(group):
    assert str(CliRunner().invoke(group, ["broken"]).exception) == "imported"


def test_the_report_holds_versions_command_and_traceback():
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    report = main.crash_report(caught.value, ["step", "-v"])
    assert "command: skillopt-ci step -v" in report
    assert report.startswith(f"skillopt-ci {__version__}, Python 3.")
    assert report.rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    "text",
    [
        *("sk-abcdefgh12345678 glpat-abcdefgh12345678", "Authorization: Bearer abcdefgh12345678"),
        "https://me:abcdefgh12345678@example.org/r.git",
        "ghp_abcdefgh12345678 ghs_12_eyJhbGci.eyJpc3Mi.abcdefgh12345678",  # of apps, since 2026
    ],
)
def test_keys_are_known_by_their_shape(text):
    assert "abcdefgh12345678" not in main.crash_report(ValueError(text), [])


def test_plain_words_stay():
    text = "https://example.org/a@b task-12345678 HOME=/home/me"
    assert text in main.crash_report(ValueError(text), [])

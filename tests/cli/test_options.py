import io
import json
from pathlib import Path

import click
import pytest
from command_line import Terminal

from skillopt_ci.cli.main import main
from skillopt_ci.cli.options import (
    Globals,
    build_console,
    command,
    print_json,
    wants_colour,
    wrapped,
)


@command(cls=click.Group)
def app(settings: Globals) -> None:
    pass


@command()
@click.option("--only", default="")
def show(settings: Globals, only: str) -> None:
    click.echo(
        f"{settings.config}|{','.join(settings.overrides)}|{settings.json}"
        f"|{settings.verbosity}|{settings.progress}|{only}"
    )


app.add_command(show)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(words, group=app) == 0
    return capsys.readouterr().out.strip().split("|")


def test_json_holds_no_command_to_a_ci_runner(capsys):
    told = {"reason": "###[error]::x"}
    print_json(told)
    Globals({}, Path(), json=True).tell(told, "")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [told, told]
    assert "##[" not in "".join(lines)


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "a.yaml", "--json", "-q", "--no-progress", "show", "--only", "x"],
        ["show", "--only", "x", "-c", "a.yaml", "--json", "-q", "--no-progress"],
        ["--json", "-q", "show", "--no-progress", "--config=a.yaml", "--only=x"],
    ],
    ids=["before", "after", "both"],
)
def test_options_stand_before_and_after_the_command_or_have_defaults(words, capsys):
    assert shown(capsys, "show") == ["skillopt.yaml", "", "False", "0", "True", ""]
    assert shown(capsys, *words) == ["a.yaml", "", "True", "-1", "False", "x"]


@pytest.mark.parametrize(
    ("words", "place", "value"),
    [
        ("-c a.yaml show -c b.yaml", 0, "b.yaml"),
        ("-o a=1 show -o b=2 -o c=3", 1, "a=1,b=2,c=3"),
        ("-v show -vv", 3, "3"),
    ],
)
def test_the_last_one_wins_or_they_add_up_in_order(capsys, words, place, value):
    assert shown(capsys, *words.split())[place] == value


@pytest.mark.parametrize("words", [["--version"], ["show", "--version"]])
def test_version_is_told_in_both_places(words, capsys):
    assert main(words, group=app) == 0
    assert capsys.readouterr().out.startswith("skillopt-ci ")


def test_globals_of_the_process_are_a_snapshot(monkeypatch):
    seen: list[Globals] = []

    @command("look")
    def look(settings: Globals) -> None:
        monkeypatch.setenv("SKILLOPT_TEST_LATER", "1")
        seen.append(settings)

    assert main([], group=look) == 0
    (settings,) = seen
    assert "SKILLOPT_TEST_LATER" not in settings.environ
    assert settings.cwd == Path.cwd()


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_capable_terminals(stream, environ, wanted):
    assert wants_colour(stream, environ) is wanted


def test_text_is_printed_as_it_is():
    build_console(stream := io.StringIO(), {}).print("[red]not markup[/red] :smile: 'x' 42")
    assert stream.getvalue() == "[red]not markup[/red] :smile: 'x' 42\n"


@pytest.mark.parametrize(
    "words",
    ["check", "config", "estimate", "plan", "status", "log", "show 1", "diff", "best", "comment"],
)
def test_a_command_finds_the_configuration_from_a_folder_below(cli, trained, words):
    found = cli(trained / "skills" / "ledger", *words.split(), "-o", "train.num_epochs=2")
    assert (found.code, found.err) == (0, "")
    assert "--config" not in found.out


def test_a_configuration_below_is_named_and_not_used(cli, trained):
    found = cli(trained.parent, "config")
    assert (found.code, found.out) == (2, "")
    assert "There is another one: --config repository/skillopt.yaml" in found.err
    assert "one: --config skillopt.yaml" in cli(trained, "config", "--config", "skillopt.yml").err


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("skillopt-ci s", ["step", "status", "show", "slow-update"]),
        ("skillopt-ci sim", []),
        ("skillopt-ci evla --quiet trac", ["trace"]),
        ("skillopt-ci --no", ["--no-progress"]),
        ("skillopt-ci eval --split tr", ["train"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(capsys, monkeypatch, line, completed):
    monkeypatch.setenv("_SKILLOPT_CI_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    assert main([]) == 0
    assert capsys.readouterr().out.split() == [f"plain,{word}" for word in completed]


def test_a_text_breaks_between_words_on_a_terminal_and_not_in_a_file(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = "error: " + "a few words and " * 9 + "/a/path/" + "that-is-longer" * 9 + "\nhint"
    lines = wrapped(text, Terminal(), 4).split("\n")
    assert " ".join(line.strip() for line in lines) == text.replace("\n", " ")
    assert sum(len(line) > 80 for line in lines) == 1
    assert wrapped(text, io.StringIO()) == text
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    Globals({}, Path(), json=True).say("a few words and " * 9)
    assert max(map(len, terminal.getvalue().splitlines())) <= 80

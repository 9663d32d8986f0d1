from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from skillopt_ci.cli.main import LazyGroup

BROKEN = 'raise RuntimeError("imported")\n'
GREET = """import click


@click.command()
def greet_command():
    click.echo("hello")
"""


@pytest.fixture
def group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> LazyGroup:
    package = f"lazy_{abs(hash(request.node.name))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "greet.py").write_text(GREET, encoding="utf-8")
    (tmp_path / package / "broken.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return LazyGroup(
        "app",
        commands_by_name={
            "greet": (f"{package}.greet", "Say hello."),
            "broken": (f"{package}.broken", "Fail on import."),
        },
    )


def test_a_command_is_found_by_name(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["greet"]).output == "hello\n"


def test_help_lists_summaries_without_importing(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert "Say hello." in result.output
    assert "Fail on import." in result.output


def test_only_the_named_command_is_imported(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["broken"])
    assert str(result.exception) == "imported"


def test_a_misspelt_command_gets_the_nearest(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["gret"])
    assert result.exit_code == 2
    assert "no command 'gret'. Did you mean greet?" in result.output


def test_an_unknown_option_is_not_taken_for_a_command(group: LazyGroup) -> None:
    assert "No such option" in CliRunner().invoke(group, ["--gret"]).output


def test_an_unknown_name_is_no_command(group: LazyGroup) -> None:
    assert group.get_command(click.Context(group), "nothing") is None

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from skillopt_ci.cli.init import PRESETS, choose, decider, init_command
from skillopt_ci.cli.options import Globals
from skillopt_ci.config.loading import load

KEYS = ["run", "skill", "provider", "base_url", "target_model", "optimizer_model", "api_key_env"]


def init(folder: Path, *words: str) -> Result:
    settings = replace(Globals.of_process(), cwd=folder)
    return CliRunner().invoke(init_command, words, obj=settings, standalone_mode=False)


@pytest.mark.parametrize("provider", PRESETS)
def test_every_provider_makes_a_configuration_that_loads(provider: str, tmp_path: Path) -> None:
    result = init(tmp_path, "--provider", provider, "--base-url", "http://localhost:1/v1")
    assert result.return_value == 0, result.output
    assert load(tmp_path / "skillopt.yaml").config.model.target.model == PRESETS[provider].target  # type: ignore[index]


def test_options_reach_the_configuration(tmp_path: Path) -> None:
    init(tmp_path, "--run", "r1", "--target-model", "small", "--api-key-env", "MY_KEY")
    config = load(tmp_path / "skillopt.yaml").config
    assert config.run == "r1"
    assert config.skill == "skills/r1/SKILL.md"
    assert config.model.target.model == "small"
    assert config.model.optimizer.api_key_env == "MY_KEY"


def test_it_says_what_it_wrote_and_what_comes_next(tmp_path: Path) -> None:
    output = init(tmp_path, "--run", "notes").output
    assert "wrote     skillopt.yaml" in output
    assert "export OPENAI_API_KEY=…" in output
    assert "skillopt-ci validate" in output


def test_existing_files_are_left_and_listed(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("mine", encoding="utf-8")
    told = json.loads(init(tmp_path, "--json").output)
    assert told["left"] == ["AGENTS.md"]
    assert "skillopt.yaml" in told["written"]
    assert (tmp_path / "AGENTS.md").read_text(encoding="utf-8") == "mine"


def test_a_second_time_there_is_nothing_left_to_do(tmp_path: Path) -> None:
    init(tmp_path)
    again = init(tmp_path)
    assert again.return_value == 3
    assert "wrote" not in again.output


def test_a_skill_given_as_a_folder_is_its_document(tmp_path: Path) -> None:
    (tmp_path / "skills/notes").mkdir(parents=True)
    init(tmp_path, "--skill", "skills/notes")
    assert (tmp_path / "skills/notes/SKILL.md").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--provider", "compatible"], "--base-url is needed"),
        (["--run", "a b"], "'a b' is not made of letters"),
        (["--provider", "opena"], "'opena' is not one of"),
    ],
)
def test_what_cannot_be_written_down_is_refused(
    words: list[str], message: str, tmp_path: Path
) -> None:
    result = init(tmp_path, *words)
    assert isinstance(result.exception, click.UsageError)
    assert message in result.exception.format_message()
    assert list(tmp_path.iterdir()) == []


def answered(folder: Path, text: str) -> Result:
    @click.command()
    def ask() -> None:
        choices = choose(folder, decider(dict.fromkeys(KEYS), asking=True))
        click.echo(f"{choices.run} {choices.skill} {json.dumps(choices.target)}")

    return CliRunner().invoke(ask, input=text)


def test_questions_have_defaults(tmp_path: Path) -> None:
    last = answered(tmp_path, "notes\n" + "\n" * 6).stdout.splitlines()[-1]
    assert last.startswith("notes skills/notes/SKILL.md ")
    assert "OPENAI_API_KEY" in last


def test_a_wrong_answer_is_asked_again(tmp_path: Path) -> None:
    answers = "a b\nnotes\n\nnowhere\nollama\ntiny\n\n\n\n"
    last = answered(tmp_path, answers).stdout.splitlines()[-1]
    assert last.startswith("notes ")
    assert '"model": "tiny"' in last
    assert "api_key_env" not in last


def test_away_from_a_terminal_nothing_is_asked(tmp_path: Path) -> None:
    command_line = [sys.executable, "-m", "skillopt_ci", "init", "--run", "notes"]
    done = subprocess.run(
        command_line, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert done.stderr == b""
    assert (tmp_path / "skillopt.yaml").is_file()


def test_github_writes_workflows_that_fit_the_run(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path], check=True)
    folder = tmp_path / "bots"
    folder.mkdir()
    told = json.loads(init(folder, "--github", "--json", "--api-key-env", "MY_KEY").output)
    train = (tmp_path / ".github/workflows/skillopt-train.yml").read_text(encoding="utf-8")
    assert ".github/workflows/skillopt-evaluate.yml" in told["written"]
    assert "MY_KEY: ${{ secrets.MY_KEY }}" in train
    assert "branches: ['trunk']" in train
    assert "paths: ['bots/skillopt.yaml', 'bots/tasks/**']" in train
    assert "config: 'bots/skillopt.yaml'" in train


def test_the_report_is_published_where_that_is_asked_for(tmp_path: Path) -> None:
    told = json.loads(init(tmp_path, "--github", "--pages", "--json").output)
    assert ".github/workflows/skillopt-pages.yml" in told["written"]
    assert "--pages belongs to --github" in str(init(tmp_path, "--pages").exception)


def test_without_github_there_are_no_workflows(tmp_path: Path) -> None:
    init(tmp_path)
    assert not (tmp_path / ".github").exists()

"""What `doctor` finds of the tools that a configuration needs: real programs, real computers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from computer_kinds import computers

from skillopt_ci.cli.probes import check_git

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Done
    from tests.conftest import Checkout, ModelServer

KEY = "sk-doctor-secret-0123456789"
CHOICE = json.dumps({"reasoning": "shorter", "selected_indices": [0]})


@pytest.fixture
def bare(checkout: Checkout, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is ready, and no key of any agent."""
    monkeypatch.setattr(model_server, "answer", lambda system, prompt: CHOICE, raising=False)
    monkeypatch.setenv("DEMO_KEY", KEY)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    return checkout.folder


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def look(cli: Cli, folder: Path, *overrides: str) -> Done:
    options = [word for one in overrides for word in ("-o", one)]
    return cli(folder, "doctor", "--offline", "--json", *options)


def found(done: Done, part: str, level: str | None = None) -> list[str]:
    rows: list[dict[str, Any]] = done.json["findings"]
    return [one["text"] for one in rows if one["part"] == part and level in (None, one["level"])]


UNCONFINED = "rollout.computer={type: unconfined}"


def claude(command: Path | str = "claude") -> str:
    return f"rollout.solver={{type: external, agent: claude-code, command: ['{command}']}}"


def test_an_agent_is_asked_for_its_version_without_its_key(
    cli: Cli, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    program = script(tmp_path / "bin/claude", 'echo "2.0.1 (Claude Code) $1 $ANTHROPIC_API_KEY"')
    done = look(cli, bare, UNCONFINED, claude(program))
    assert found(done, "agent") == [f"{program}: 2.0.1 (Claude Code) --version"]
    assert KEY not in done.out + done.err


def test_an_agent_that_is_not_on_the_computer_is_told_with_the_remedy(cli: Cli, bare: Path) -> None:
    done = look(cli, bare, UNCONFINED, claude("/nowhere/claude"))
    (error,) = found(done, "agent", "error")
    assert error.startswith("/nowhere/claude is not on the task's computer (unconfined)")
    assert "rollout.solver.command" in error
    assert done.code == 2


def test_an_agent_that_fails_is_told_in_its_own_words(cli: Cli, bare: Path, tmp_path: Path) -> None:
    program = script(tmp_path / "claude", "echo needs node 22 >&2; exit 3")
    done = look(cli, bare, UNCONFINED, claude(program))
    assert found(done, "agent", "error") == [f"{program} --version failed: needs node 22"]


def test_a_known_agent_without_a_key_is_warned_of(cli: Cli, bare: Path, tmp_path: Path) -> None:
    program = script(tmp_path / "claude", "echo 2.0.1")
    (warning,) = found(look(cli, bare, UNCONFINED, claude(program)), "agent", "warning")
    assert warning.startswith("it has no key: none of ANTHROPIC_API_KEY, ")


def test_a_program_of_ones_own_is_looked_for_and_not_started(
    cli: Cli, bare: Path, tmp_path: Path
) -> None:
    program = script(tmp_path / "mine", f"touch {tmp_path}/started")
    solver = f"rollout.solver={{type: external, agent: command, command: ['{program}', x]}}"
    assert found(look(cli, bare, UNCONFINED, solver), "agent") == [f"{program} is there"]
    assert not (tmp_path / "started").exists()
    absent = solver.replace(str(program), "not-there-at-all")
    assert look(cli, bare, UNCONFINED, absent).code == 2


def test_a_sandbox_is_told_with_its_versions_and_what_an_agent_lacks_in_it(
    cli: Cli, bare: Path, tmp_path: Path
) -> None:
    computers("sandbox")  # or skip
    program = script(tmp_path / "agents/claude", "echo 2.0.1")
    alone = look(cli, bare, "rollout.computer={type: sandbox}", claude(program))
    assert any(text.startswith("bubblewrap ") for text in found(alone, "computer", "ok"))
    (error,) = found(alone, "agent", "error")
    assert "rollout.computer.readable" in error
    # what is in /tmp cannot be made readable
    inside = look(cli, bare, "rollout.computer={type: sandbox}", claude("/usr/bin/env"))
    assert found(inside, "agent", "ok")[0].startswith("/usr/bin/env: ")
    assert any("it can reach no server" in one for one in found(inside, "agent", "warning"))


def test_an_engine_that_does_not_answer_is_told_once(
    cli: Cli, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    done = look(cli, bare, "rollout.computer={type: docker, image: 'debian:12'}", claude())
    (error,) = found(done, "computer", "error")
    assert "No Docker engine answers" in error
    assert "DOCKER_HOST" in error
    assert found(done, "agent") == found(done, "computer", "ok") == []
    assert done.code in (2, 5)


def test_an_engine_is_told_with_its_version_and_the_images_it_lacks(cli: Cli, bare: Path) -> None:
    computers("docker")  # or skip
    there = os.environ["SKILLOPT_CI_TEST_IMAGE"]
    done = look(cli, bare, f"rollout.computer={{type: docker, image: '{there}'}}")
    assert f"the image {there} is there" in found(done, "computer", "ok")
    assert any(text.startswith("Docker engine ") for text in found(done, "computer", "ok"))


@pytest.mark.parametrize(
    ("said", "level"),
    [("git version 2.20.1", "error"), ("git version 2.45.0.windows.1", "ok"), ("git x", "ok")],
)
def test_a_git_that_is_too_old_is_told(said: str, level: str) -> None:
    judged = check_git(said)
    assert (judged.part, judged.level) == ("git", level)
    assert judged.text.startswith(said)


def test_programs_as_models_are_found_with_their_version(
    cli: Cli, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path / "bin/claude", 'echo "2.0.1 $1"')
    monkeypatch.setenv("PATH", f"{path.parent}", prepend=":")
    role = (
        "model.target.provider=claude-code",
        *(f"model.target.{key}=null" for key in ("api_key_env", "base_url")),
    )
    done = look(cli, bare, *role)
    assert f"its program is {path}, version 2.0.1 --version" in found(done, "model.target", "ok")
    path.unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (error,) = found(look(cli, bare, *role), "model.target", "error")
    assert "the program claude is not found" in error

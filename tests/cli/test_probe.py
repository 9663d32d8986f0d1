import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, Done
from computer_kinds import computers
from programs import write_program

from skillopt_ci.cli.check import check_git
from tests.conftest import Checkout, ModelServer, Workshop

KEY = "sk-probe-secret-0123456789"
CHOICE = json.dumps({"reasoning": "shorter", "selected_indices": [0]})


@pytest.fixture
def checkout(workshop: Workshop) -> Checkout:
    """A repository in which nothing has to be mended."""
    front = "---\nname: skills\ndescription: How items are written.\n---\n"
    return workshop.checkout(skill=f"{front}# Items\n")


@pytest.fixture
def server(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    monkeypatch.setattr(model_server, "answer", lambda system, prompt: CHOICE, raising=False)
    monkeypatch.setenv("DEMO_KEY", KEY)
    return model_server


def found(done: Done, part: str, level: str | None = None) -> list[str]:
    rows: list[dict[str, Any]] = done.json["findings"]
    return [one["text"] for one in rows if one["part"] == part and level in (None, one["level"])]


def errors(done: Done) -> list[str]:
    return [one["text"] for one in done.json["findings"] if one["level"] == "error"]


def test_every_role_is_asked_once_and_told_about(cli, checkout, server):
    done = cli(checkout.folder, "check", "--probe", "--json")
    assert (done.code, errors(done), done.json["ready"]) == (0, [], True)
    about, answered = found(done, "model.optimizer", "ok")
    assert about == "m (openai, key in DEMO_KEY)"
    assert answered.startswith("m answered in ")
    assert "no price is known" in found(done, "model.optimizer", "warning")[0]
    assert len(server.prompts) == 2
    assert KEY not in done.out + done.err


def test_a_missing_key_is_one_role_s_error_and_no_call_is_made(cli, checkout, server):
    unset = ("-o", "model.target.api_key_env=NOT_THERE")
    done = cli(checkout.folder, "check", "--probe", "--json", *unset)
    (error,) = errors(done)
    assert (done.code, "NOT_THERE, which is not set" in error) == (2, True)
    assert found(done, "model.target", "ok") == []
    assert len(found(done, "model.optimizer", "ok")) == 2
    told = cli(checkout.folder, "check", *unset)
    assert "no step can start: see model.target." in told.out
    assert (told.code, "Ready to train" in told.out) == (0, False)


def test_a_header_without_its_variable_is_told_before_calls(cli, checkout, server):
    header = "model.target.headers={x-team: '${GATEWAY_TEAM}'}"
    done = cli(checkout.folder, "check", "--probe", "--json", "-o", header)
    assert "GATEWAY_TEAM" in found(done, "model.target", "error")[0]
    assert len(server.prompts) == 1  # the optimizer's


def test_a_key_from_a_file_is_used_and_not_told(cli, checkout, server, monkeypatch):
    checkout.write("key.txt", f"{KEY}-of-the-file\n")
    options = [
        word
        for role in ("target", "optimizer")
        for word in (
            *("-o", f"model.{role}.api_key_file=key.txt"),
            *("-o", f"model.{role}.api_key_env=null"),
        )
    ]
    done = cli(checkout.folder, "check", "--probe", "--json", *options)
    assert done.code == 0
    assert "key in the file key.txt" in found(done, "model.target", "ok")[0]
    assert server.keys == {f"Bearer {KEY}-of-the-file"}
    assert KEY not in done.out + done.err


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, 2, "refused the key in DEMO_KEY"),
        (404, 2, "does not serve 'm'"),
        (413, 2, "The prompt is too long"),
        (503, 5, "503"),
    ],
)
def test_a_servers_objection_is_told_without_the_key(cli, checkout, server, status, code, words):
    server.trouble = lambda prompt: (status, f"no: {KEY}")
    done = cli(checkout.folder, "check", "--probe", "--json")
    assert done.code == code
    assert all(words in one for one in errors(done))
    assert KEY not in done.out + done.err


def test_a_server_that_is_not_there_is_named(cli, checkout, server):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        base = f"model.optimizer.base_url={url}"
        done = cli(checkout.folder, "check", "--probe", "--json", "-o", base)
    assert done.code == 5
    (error,) = errors(done)
    assert "the connection failed" in error
    assert url in error


def test_an_optimizer_that_cannot_keep_to_the_contract_is_none(cli, checkout, server, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda system, prompt: "Hello!")
    done = cli(checkout.folder, "check", "--probe", "--json")
    (error,) = errors(done)
    assert (done.code, "not the JSON object that was asked for" in error) == (2, True)
    assert any("only tasks that want JSON" in one for one in found(done, "model.target"))


def test_an_empty_answer_is_told_with_what_it_may_mean(cli, checkout, server, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda system, prompt: "")
    judge = f"{{provider: openai, model: j, base_url: '{server.url}', api_key_env: DEMO_KEY}}"
    graded = ("-o", "scorer={type: rubric, rubric: Good.}", "-o", f"model.judge={judge}")
    done = cli(checkout.folder, "check", "--probe", "--json", *graded)
    empty = [one for one in done.json["findings"] if "was empty" in one["text"]]
    assert [one["level"] for one in empty] == ["warning", "error", "error"]
    assert "max_output_tokens" in empty[1]["text"]


def test_offline_nobody_is_asked(cli, checkout, server):
    done = cli(checkout.folder, "check", "--json")
    assert (done.code, server.prompts) == (0, [])
    assert any(one["part"] == "model.target" for one in done.json["findings"])


def test_a_key_that_cannot_be_hidden_is_said_and_not_shown(cli, checkout, server, monkeypatch):
    monkeypatch.setenv("DEMO_KEY", "letmein")
    done = cli(checkout.folder, "check", "--probe", "--json")
    warnings = [one["text"] for one in done.json["findings"] if one["part"] == "secrets"]
    assert "too short or too simple" in warnings[0]
    assert "letmein" not in done.out + done.err


def test_simulated_models_are_ready_and_cost_nothing(cli, untrained):
    done = cli(untrained, "check", "--probe", "--json")
    assert done.code == 0
    assert "answered in" in found(done, "model.target", "ok")[1]


@pytest.fixture
def bare(checkout: Checkout, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is ready, and no key of any agent."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    return checkout.folder


def look(cli: Cli, folder: Path, *overrides: str) -> Done:
    return cli(folder, "check", "--json", *[word for one in overrides for word in ("-o", one)])


UNCONFINED = "rollout.computer={type: unconfined}"


def claude(command: Path | str = "claude") -> str:
    return f"rollout.solver={{type: external, agent: claude-code, command: ['{command}']}}"


def test_an_agent_is_asked_for_its_version_without_its_key(cli, bare, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    program = write_program(tmp_path / "claude", 'echo "2.0.1 (Claude Code) $1 $ANTHROPIC_API_KEY"')
    done = look(cli, bare, UNCONFINED, claude(program))
    assert found(done, "agent") == [f"{program}: 2.0.1 (Claude Code) --version"]
    assert KEY not in done.out + done.err


def test_an_agent_that_is_not_on_the_computer_is_told_with_the_remedy(cli, bare):
    done = look(cli, bare, UNCONFINED, claude("/nowhere/claude"))
    (error,) = found(done, "agent", "error")
    assert error.startswith("/nowhere/claude is not on the task's computer (unconfined)")
    assert "rollout.solver.command" in error
    assert done.code == 2


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        ("echo needs node 22 >&2; exit 3", "error", "{} --version failed: needs node 22"),
        ("echo 2.0.1", "warning", "it has no key: none of ANTHROPIC_API_KEY, "),
    ],
)
def test_a_failing_or_keyless_agent_is_told(cli, bare, tmp_path, monkeypatch, text, level, said):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")  # an address is no key
    program = write_program(tmp_path / "claude", text)
    (told,) = found(look(cli, bare, UNCONFINED, claude(program)), "agent", level)
    assert told.startswith(said.format(program))


def test_a_program_of_ones_own_is_looked_for_and_not_started(cli, bare, tmp_path):
    mine = write_program(tmp_path / "mine", f"touch {tmp_path}/started")
    (link := bare / "link").symlink_to(mine)
    solver = "rollout.solver={{type: external, agent: command, command: ['{}', x]}}"
    looks = [look(cli, bare, UNCONFINED, solver.format(one)) for one in (mine, link, "nowhere")]
    told = sum((found(done, "agent", "ok") for done in looks), list[str]())
    assert (told, looks[2].code) == ([f"{mine} is there", f"{link} is there"], 2)
    assert not (tmp_path / "started").exists()


def test_what_an_agent_lacks_in_a_sandbox_is_told(cli, bare, tmp_path):
    computers("sandbox")  # or skip
    program = write_program(tmp_path / "agents/claude", "echo 2.0.1")
    alone = look(cli, bare, "rollout.computer={type: sandbox}", claude(program))
    assert "rollout.computer.readable" in found(alone, "agent", "error")[0]
    # what is in /tmp cannot be made readable
    inside = look(cli, bare, "rollout.computer={type: sandbox}", claude("/usr/bin/env"))
    assert found(inside, "agent", "ok")[0].startswith("/usr/bin/env: ")
    assert any("it can reach no server" in one for one in found(inside, "agent", "warning"))


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker program")
def test_an_engine_that_does_not_answer_is_told_once(cli, bare, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    done = look(cli, bare, "rollout.computer={type: docker, image: 'debian:12'}", claude())
    (error,) = found(done, "computer", "error")
    assert "No Docker engine answers" in error
    assert "DOCKER_HOST" in error
    assert found(done, "agent") == found(done, "computer", "ok") == []
    assert done.code in (2, 5)


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("git version 2.20.1", "error"),
        ("git version 2.34.1", "warning"),
        ("git version 2.45.0.windows.1", "ok"),
        ("git x", "ok"),
    ],
)
def test_a_git_that_is_too_old_is_told(said, level):
    judged = check_git(said)
    assert (judged.part, judged.level) == ("git", level)
    assert judged.text.startswith(said)


def test_programs_as_models_are_found(cli, bare, tmp_path, monkeypatch):
    path = write_program(tmp_path / "bin/claude", 'echo "2.0.1 $1"')
    monkeypatch.setenv("PATH", f"{path.parent}", prepend=":")
    unset = (f"model.target.{key}=null" for key in ("api_key_env", "base_url"))
    role = ("model.target.provider=claude-code", *unset)
    assert f"claude-code: {path}" in found(look(cli, bare, *role), "model.target", "ok")[0]
    path.unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (error,) = found(look(cli, bare, *role), "model.target", "error")
    assert "the program claude is not found" in error

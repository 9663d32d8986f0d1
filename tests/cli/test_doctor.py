from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Done
    from tests.conftest import Checkout, ModelServer, Workshop

KEY = "sk-doctor-secret-0123456789"
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


def roles(done: Done) -> Any:
    return done.json["roles"]


def errors(done: Done) -> list[str]:
    return [one["text"] for one in done.json["findings"] if one["level"] == "error"]


def test_every_role_is_asked_once_and_told_about(
    cli: Cli, checkout: Checkout, server: ModelServer
) -> None:
    done = cli(checkout.folder, "doctor", "--json")
    assert (done.code, errors(done), done.json["ready"]) == (0, [], True)
    found = roles(done)["optimizer"]
    assert (found["provider"], found["model"], found["key"]) == ("openai", "m", "key in DEMO_KEY")
    assert (found["answered"], found["structured"], found["usage_reported"]) == (True, True, True)
    assert found["price"]["source"] == "unknown"
    assert found["seconds"] >= 0
    assert len(server.prompts) == 2
    assert KEY not in done.out + done.err


def test_people_get_lines_and_a_conclusion(
    cli: Cli, checkout: Checkout, server: ModelServer
) -> None:
    done = cli(checkout.folder, "doctor")
    assert done.code == 0
    for words in ("skillopt-ci ", "git version", "m answered in", "no price is known", "Ready to"):
        assert words in done.out
    assert KEY not in done.out + done.err


def test_a_missing_key_is_one_role_s_error_and_no_call_is_made(
    cli: Cli, checkout: Checkout, server: ModelServer
) -> None:
    done = cli(checkout.folder, "doctor", "--json", "-o", "model.target.api_key_env=NOT_THERE")
    assert done.code == 2
    assert len(errors(done)) == 1
    assert "NOT_THERE, which is not set" in errors(done)[0]
    assert not roles(done)["target"]["answered"]
    assert roles(done)["optimizer"]["answered"]


def test_a_key_from_a_file_is_used_and_not_told(
    cli: Cli, checkout: Checkout, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.write("key.txt", f"{KEY}-of-the-file\n")
    options = [
        word
        for role in ("target", "optimizer")
        for word in (
            *("-o", f"model.{role}.api_key_file=key.txt"),
            *("-o", f"model.{role}.api_key_env=null"),
        )
    ]
    done = cli(checkout.folder, "doctor", "--json", *options)
    assert done.code == 0
    assert roles(done)["target"]["key"] == "key in the file key.txt"
    assert server.keys == {f"Bearer {KEY}-of-the-file"}
    assert KEY not in done.out + done.err


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(401, 2, "refused the key in DEMO_KEY"), (404, 2, "there is no model 'm'"), (503, 5, "503")],
)
def test_what_the_server_has_against_it_is_told_without_the_key(
    cli: Cli, checkout: Checkout, server: ModelServer, status: int, code: int, words: str
) -> None:
    server.trouble = lambda prompt: (status, f"no: {KEY}")
    done = cli(checkout.folder, "doctor", "--json")
    assert done.code == code
    assert all(words in one for one in errors(done))
    assert KEY not in done.out + done.err


def test_a_server_that_is_not_there_is_named(
    cli: Cli, checkout: Checkout, server: ModelServer
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        done = cli(checkout.folder, "doctor", "--json", "-o", f"model.optimizer.base_url={url}")
    assert done.code == 5
    (error,) = errors(done)
    assert f"nobody can be reached at 127.0.0.1, port {port}" in error
    assert "model.optimizer.base_url" in error


def test_an_optimizer_that_cannot_keep_to_the_contract_is_no_optimizer(
    cli: Cli, checkout: Checkout, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "answer", lambda system, prompt: "Hello!")
    done = cli(checkout.folder, "doctor", "--json")
    assert done.code == 2
    (error,) = errors(done)
    assert "not the JSON object that was asked for" in error
    assert roles(done)["target"]["structured"] is False


def test_offline_nobody_is_asked(cli: Cli, checkout: Checkout, server: ModelServer) -> None:
    done = cli(checkout.folder, "doctor", "--offline", "--json")
    assert (done.code, roles(done), server.prompts) == (0, {}, [])
    assert any(one["part"] == "model.target" for one in done.json["findings"])


def test_a_key_that_cannot_be_hidden_is_said_and_not_shown(
    cli: Cli, checkout: Checkout, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_KEY", "letmein")
    done = cli(checkout.folder, "doctor", "--json")
    warnings = [one["text"] for one in done.json["findings"] if one["part"] == "secrets"]
    assert "so short or plain" in warnings[0]
    assert "letmein" not in done.out + done.err


def test_a_configuration_that_cannot_be_read_is_the_only_error(
    cli: Cli, checkout: Checkout
) -> None:
    checkout.write("skillopt.yaml", "run: [\n")
    done = cli(checkout.folder, "doctor", "--json")
    assert done.code == 2
    assert len(errors(done)) == 1


def test_simulated_models_are_ready_and_cost_nothing(cli: Cli, untrained: Any) -> None:
    done = cli(untrained, "doctor", "--json")
    assert done.code == 0
    assert roles(done)["target"]["price"]["source"] == "simulated"

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.findings import Finding
from skillopt_ci.cli.probes import ask_roles
from skillopt_ci.config.models import Models
from skillopt_ci.errors import ExitCode
from skillopt_ci.redaction import unchanged

if TYPE_CHECKING:
    from tests.conftest import ModelServer

KEY = "sk-probe-secret-0123456789"
CHOICE = json.dumps({"reasoning": "shorter", "selected_indices": [0]})


@pytest.fixture
def models(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Models:
    monkeypatch.setattr(model_server, "answer", lambda system, prompt: CHOICE)
    role = {
        "provider": "openai",
        "model": "m",
        "base_url": model_server.url,
        "api_key_env": "PROBE_KEY",
        "retries": 0,
    }
    return Models.model_validate({"target": role, "optimizer": role, "judge": role})


def ask(models: Models, **environ: str) -> list[Finding]:
    answers = asyncio.run(ask_roles(models, environ, Path(), unchanged))
    return [finding for one in answers for finding in one.findings]


def test_ask_roles_calls_every_role_once(models: Models, model_server: ModelServer) -> None:
    found = ask(models, PROBE_KEY=KEY)
    assert [one.part for one in found] == ["model.target", "model.optimizer", "model.judge"]
    assert found[0].text.startswith("m answered in ")
    assert "(15 tokens, " in found[0].text
    assert len(model_server.prompts) == 3


def test_ask_roles_names_the_variable_of_a_wrong_key_and_hides_the_key(
    models: Models, model_server: ModelServer
) -> None:
    model_server.trouble = lambda prompt: (401, f"Incorrect API key provided: {KEY}")
    found = ask(models, PROBE_KEY=KEY)
    assert {one.exit_code for one in found} == {ExitCode.USAGE}
    assert all("PROBE_KEY" in one.text for one in found)
    assert KEY not in str(found)


def test_ask_roles_goes_on_after_a_role_that_fails(
    models: Models, model_server: ModelServer
) -> None:
    calls = iter([(500, "down"), None, None])
    model_server.trouble = lambda prompt: next(calls)
    found = ask(models, PROBE_KEY=KEY)
    assert [one.level for one in found] == ["error", "ok", "ok"]
    assert found[0].exit_code is ExitCode.INFRASTRUCTURE


def test_ask_roles_calls_no_role_without_its_key(models: Models, model_server: ModelServer) -> None:
    found = ask(models)
    assert {(one.level, one.exit_code) for one in found} == {("error", ExitCode.USAGE)}
    assert all("PROBE_KEY" in one.text for one in found)
    assert model_server.prompts == []


def test_ask_roles_says_what_an_empty_answer_may_mean(
    models: Models, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "answer", lambda system, prompt: "")
    empty = [one for one in ask(models, PROBE_KEY=KEY) if "was empty" in one.text]
    assert [one.level for one in empty] == ["warning", "error", "error"]
    assert "max_output_tokens" in empty[1].text

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.check import Finding, probe_models
from skillopt_ci.config.models import Models
from skillopt_ci.errors import ExitCode

if TYPE_CHECKING:
    from tests.conftest import ModelServer

KEY = "sk-probe-secret-0123456789"


@pytest.fixture
def models(model_server: ModelServer) -> Models:
    role = {
        "provider": "openai",
        "model": "m",
        "base_url": model_server.url,
        "api_key_env": "PROBE_KEY",
        "retries": 0,
    }
    return Models.model_validate({"target": role, "optimizer": role, "judge": role})


def probe(models: Models, **environ: str) -> list[Finding]:
    return asyncio.run(probe_models(models, environ))


def test_every_role_is_called_once(models: Models, model_server: ModelServer) -> None:
    found = probe(models, PROBE_KEY=KEY)
    assert [one.part for one in found] == ["model.target", "model.optimizer", "model.judge"]
    assert found[0].text == "m answered (15 tokens)"
    assert len(model_server.prompts) == 3


def test_a_wrong_key_names_its_variable_and_stays_unseen(
    models: Models, model_server: ModelServer
) -> None:
    model_server.trouble = lambda prompt: (401, f"Incorrect API key provided: {KEY}")
    found = probe(models, PROBE_KEY=KEY)
    assert {one.exit_code for one in found} == {ExitCode.USAGE}
    assert all("PROBE_KEY" in one.text for one in found)
    assert KEY not in str(found)


def test_a_role_that_fails_does_not_hide_the_others(
    models: Models, model_server: ModelServer
) -> None:
    calls = iter([(500, "down"), None, None])
    model_server.trouble = lambda prompt: next(calls)
    found = probe(models, PROBE_KEY=KEY)
    assert [one.level for one in found] == ["error", "ok", "ok"]
    assert found[0].exit_code is ExitCode.INFRASTRUCTURE


def test_a_missing_key_is_said_before_any_call(models: Models, model_server: ModelServer) -> None:
    (finding,) = probe(models)
    assert (finding.part, finding.level) == ("probe", "error")
    assert "PROBE_KEY" in finding.text
    assert model_server.prompts == []

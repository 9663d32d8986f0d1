"""Signing in to Azure: stand-ins for the Azure CLI and for a machine's identity."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from http_server import Handler, http_server
from model_api import serving

from skillopt_ci.config.models import Azure, ModelRole, Models
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.access import signed_in
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatRequest, Role

#: Counts its calls and hands out a token that is good for a year.
AZ = f"""#!{sys.executable}
import json, pathlib, sys, time
log = pathlib.Path(__file__).with_name("calls.jsonl")
with log.open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if "fail" in str(log.parent):
    sys.exit("ERROR: Please run 'az login' to setup account.")
until = int(time.time()) + 31_536_000
token = {{"accessToken": "token-1", "expires_on": until, "expiresOn": "2099-01-01 00:00:00.000000"}}
print(json.dumps(token))
"""
Headers = Callable[[], Awaitable[Mapping[str, str]]]


def place_az(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder.mkdir()
    program = folder / "az"
    program.write_text(AZ, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "calls.jsonl"


async def together(headers: Headers, times: int) -> list[Mapping[str, str]]:
    return list(await asyncio.gather(*(headers() for _ in range(times))))


@pytest.mark.integration
def test_the_azure_cli_is_asked_once_for_many_calls(tmp_path, monkeypatch):
    log = place_az(tmp_path / "bin", monkeypatch)
    headers = signed_in("model.target", Azure(auth="azure_cli"))
    found = asyncio.run(together(headers, 5))
    assert found == [{"Authorization": "Bearer token-1"}] * 5
    calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(calls) == 1
    assert "https://cognitiveservices.azure.com" in " ".join(calls[0])


@pytest.mark.integration
def test_who_is_not_signed_in_is_told_how(tmp_path, monkeypatch):
    place_az(tmp_path / "fail", monkeypatch)
    headers = signed_in("model.target", Azure(auth="azure_cli"))
    with pytest.raises(
        ModelSetupError, match=r"model\.target: signing in to Azure by azure_cli"
    ) as e:
        asyncio.run(together(headers, 1))
    assert "az login" in str(e.value)


def test_without_the_azure_cli_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    headers = signed_in("model.target", Azure(auth="azure_cli"))
    with pytest.raises(ModelSetupError, match="signing in to Azure"):
        asyncio.run(together(headers, 1))


class _Machine(Handler):
    """The endpoint that a machine of Azure's asks for its own tokens."""

    asked: list[dict[str, list[str]]]

    def respond(self) -> None:
        self.asked.append(parse_qs(urlsplit(self.path).query))
        token = {"access_token": "token-1", "expires_on": "4102444800", "token_type": "Bearer"}
        self.answer(json.dumps({**token, "resource": "r"}).encode())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, list[str]]]]:
    """What is asked of the machine that we seem to run on."""
    asked: list[dict[str, list[str]]] = []
    with http_server(_Machine, asked=asked) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "x")
        yield asked


@pytest.mark.integration
@pytest.mark.parametrize("version", [None, "2024-12-01-preview"])
def test_a_machine_vouches_for_every_call(machine, version):
    with serving() as api:
        api.key = "token-1"
        azure = Azure(auth="managed_identity", client_id="abc", api_version=version)
        role = ModelRole(provider="azure", model="m", base_url=api.url, azure=azure)
        request = ChatRequest(Role.TARGET, "rollout", (Message("user", "hi"),))

        async def run() -> str:
            models = Models(target=role, optimizer=role)
            async with open_router(models, {}) as router:
                client = router.for_work("s", Meter())
                await client.complete(request)
                return (await client.complete(request)).text

        assert asyncio.run(run()) == "hello"
        assert [headers["authorization"] for headers in api.headers] == ["Bearer token-1"] * 2
    assert len(machine) == 1
    assert machine[0]["client_id"] == ["abc"]
    assert machine[0]["resource"] == ["https://cognitiveservices.azure.com"]

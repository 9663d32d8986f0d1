import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from http_server import Handler, http_server
from hypothesis import given
from hypothesis import strategies as st
from model_api import serving
from programs import write_program

from skillopt_ci.config.models import Azure, ModelRole, Models
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model import access
from skillopt_ci.model.access import api_key, required_variable, resolved_key_values, signed_in
from tests.model.conftest import answers


def config(**changes: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": "openai", "model": "m", **changes})


def test_a_key_is_read_without_the_space_around_it():
    assert api_key("model.target", config(), {"OPENAI_API_KEY": " sk-1\n"}) == "sk-1"
    assert api_key("model.target", config(base_url="http://localhost/v1"), {}) == "none"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, r"model\.target needs .* OPENAI_API_KEY, which is not set\n.*secret"),
        ({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY, which is empty"),
        ({"OPENAI_APIKEY": "sk-1"}, "OPENAI_APIKEY is set: did you mean"),
    ],
)
def test_a_missing_key_says_which_variable_to_set(environ, words):
    with pytest.raises(ModelSetupError, match=words) as caught:
        api_key("model.target", config(), environ)
    assert "sk-1" not in str(caught.value)


def test_values_to_redact_are_those_in_use():
    models = Models(
        target=config(), optimizer=config(api_key_env="OTHER"), judge=config(api_key_env="GONE")
    )
    environ = {"OPENAI_API_KEY": "a\n", "OTHER": "b", "UNUSED": "c"}
    assert resolved_key_values(models, environ) == ("a", "b")


def test_headers_are_secret_if_a_name_says_so():
    headers = {"x-api-key": "${A}", "x-team": "${TEAM}", "x-mode": "${MY_TOKEN} ${MODE}"}
    role = config(base_url="http://localhost/v1", headers=headers)
    environ = {"A": "a", "TEAM": "blue", "MY_TOKEN": "t", "MODE": "fast"}
    assert access.headers_of("model.target", role, environ)["x-mode"] == "t fast"
    assert resolved_key_values(Models(target=role, optimizer=role), environ) == ("a", "t")
    assert role.secret_variables == ("A", "TEAM", "MY_TOKEN", "MODE")
    role = config(base_url="http://localhost/v1", headers={"x-api-key": "Key ${A}"})
    words = r"value of A holds U\+200B \(ZERO WIDTH SPACE\) as character 5 of 6"
    with pytest.raises(ModelSetupError, match=words):
        access.headers_of("model.target", role, {"A": "a b \u200bc"})
    for environ in ({}, {"A": ""}):
        with pytest.raises(ModelSetupError, match=r"model\.target\.headers needs .*\bA\b"):
            access.headers_of("model.target", role, environ)


def test_a_secret_inside_another_leaves_no_rest():
    assert access.redact("key abcdef and abc", ["abc", "abcdef", ""]) == "key *** and ***"


@given(st.text(alphabet="xyz "), st.text(alphabet="xyz", min_size=1))
def test_no_secret_remains(text, secret):
    assert secret not in access.redact(text, [secret])


def test_a_key_may_be_in_a_file_of_its_own(tmp_path):
    (tmp_path / "key").write_text(" sk-file-1\n", encoding="utf-8")
    role = config(api_key_file="key")
    assert api_key("model.target", role, {"OPENAI_API_KEY": "other"}, tmp_path) == "sk-file-1"
    assert resolved_key_values(Models(target=role, optimizer=role), {}, tmp_path) == ("sk-file-1",)
    home = config(api_key_file="~/key")
    assert api_key("model.target", home, {"HOME": str(tmp_path)}, Path("/")) == "sk-file-1"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"model\.target\.api_key_file: key cannot be read: No such file"),
        (b" \n", "key is empty"),
        (b"\xff\xfe", "Line 1 is not UTF-8 text"),
        (b"KEY=sk-1\nOTHER=2\n", "holds U\\+000A"),
    ],
)
def test_a_file_without_a_key_is_named(tmp_path, content, words):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(ModelSetupError, match=words) as caught:
        api_key("model.target", config(api_key_file="key"), {}, tmp_path)
    assert "sk-1" not in str(caught.value)


def test_a_key_has_one_place():
    with pytest.raises(ValueError, match="give one of them"):
        config(api_key_env="A", api_key_file="b")
    assert required_variable(config()) == "OPENAI_API_KEY"
    assert required_variable(config(api_key_file="key")) is None
    assert required_variable(config(provider="simulated")) is None
    assert required_variable(config(provider="ollama")) is None


# Signing in to Azure: stand-ins for the Azure CLI and for a machine's identity.

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
    write_program(folder / "az", AZ)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "calls.jsonl"


async def together(headers: Headers, times: int) -> list[Mapping[str, str]]:
    return list(await asyncio.gather(*(headers() for _ in range(times))))


@pytest.mark.integration
def test_the_azure_cli_is_asked_once_for_many_calls(tmp_path, monkeypatch):
    log = place_az(tmp_path / "bin", monkeypatch)
    found = asyncio.run(together(signed_in("model.target", Azure(auth="azure_cli")), 5))
    assert found == [{"Authorization": "Bearer token-1"}] * 5
    calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(calls) == 1
    assert "https://cognitiveservices.azure.com" in " ".join(calls[0])


@pytest.mark.integration
def test_who_is_not_signed_in_is_told_how(tmp_path, monkeypatch):
    place_az(tmp_path / "fail", monkeypatch)
    headers = signed_in("model.target", Azure(auth="azure_cli"))
    with pytest.raises(ModelSetupError, match=r"target: signing in to Azure by azure_cli") as e:
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
def test_a_machine_vouches_for_every_call(machine, ask, version):
    with serving() as api:
        api.key = "token-1"
        azure = Azure(auth="managed_identity", client_id="abc", api_version=version)
        role = config(provider="azure", base_url=api.url, azure=azure)
        replies = answers(Models(target=role, optimizer=role), ask(), ask())
        assert [reply.text for reply in replies] == ["hello"] * 2
        assert [headers["authorization"] for headers in api.headers] == ["Bearer token-1"] * 2
    assert (len(machine), machine[0]["client_id"]) == (1, ["abc"])
    assert machine[0]["resource"] == ["https://cognitiveservices.azure.com"]

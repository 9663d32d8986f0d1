from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.access import (
    api_key,
    headers_of,
    redact,
    required_variable,
    resolved_key_values,
)


def config(**changes: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": "openai", "model": "m", **changes})


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({}, "OPENAI_API_KEY"),
        ({"base_url": "https://api.openai.com/v1/"}, "OPENAI_API_KEY"),
        ({"base_url": "http://localhost:8000/v1"}, None),
        ({"base_url": "http://localhost:8000/v1", "api_key_env": "LOCAL"}, "LOCAL"),
        ({"api_key_env": "MINE"}, "MINE"),
        ({"provider": "simulated"}, None),
    ],
)
def test_openai_s_key_goes_to_openai_alone(changes, variable):
    assert config(**changes).key_variable == variable


def test_a_key_is_read_without_the_space_around_it():
    assert api_key("model.target", config(), {"OPENAI_API_KEY": " sk-1\n"}) == "sk-1"


def test_a_server_without_a_variable_gets_a_placeholder():
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
    assert headers_of("model.target", role, environ)["x-mode"] == "t fast"
    assert resolved_key_values(Models(target=role, optimizer=role), environ) == ("a", "t")
    assert role.secret_variables == ("A", "TEAM", "MY_TOKEN", "MODE")


def test_a_stray_character_in_a_header_is_named_with_its_place():
    role = config(base_url="http://localhost/v1", headers={"x-api-key": "Key ${A}"})
    words = r"value of A holds U\+200B \(ZERO WIDTH SPACE\) as character 5 of 6"
    with pytest.raises(ModelSetupError, match=words):
        headers_of("model.target", role, {"A": "a b \u200bc"})


def test_a_secret_inside_another_leaves_no_rest():
    assert redact("key abcdef and abc", ["abc", "abcdef", ""]) == "key *** and ***"


@given(st.text(alphabet="xyz "), st.text(alphabet="xyz", min_size=1))
def test_no_secret_remains(text, secret):
    assert secret not in redact(text, [secret])


def test_a_key_may_be_in_a_file_of_its_own(tmp_path):
    (tmp_path / "key").write_text(" sk-file-1\n", encoding="utf-8")
    role = config(api_key_file="key")
    assert api_key("model.target", role, {"OPENAI_API_KEY": "other"}, tmp_path) == "sk-file-1"
    models = Models(target=role, optimizer=role)
    assert resolved_key_values(models, {}, tmp_path) == ("sk-file-1",)
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


def test_the_variable_that_must_be_set_is_named():
    assert required_variable(config()) == "OPENAI_API_KEY"
    assert required_variable(config(api_key_file="key")) is None
    assert required_variable(config(provider="simulated")) is None
    assert required_variable(config(provider="ollama")) is None

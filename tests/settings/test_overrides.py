import pytest

from skillopt_ci.config.loading import parse_override
from skillopt_ci.config.yaml import lookup, plain
from skillopt_ci.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=4", 4),
        ("a.b=[x, 1.5]", ["x", 1.5]),
        ("a.b={c: true}", {"c": True}),
        ("a.b=null", None),
        ("a.b=", None),
        ("a.b=x=y", "x=y"),
        ("a . b='4'", "4"),
    ],
)
def test_values_are_yaml(text: str, value: object) -> None:
    assert plain(parse_override(text)) == {"a": {"b": value}}


def test_an_override_is_its_own_place() -> None:
    assert str(lookup(parse_override("a.b={c: 1}"), ("a", "b", "c")).mark) == "-o a.b"


@pytest.mark.parametrize("text", ["train.seed", "", "=3", "a..b=1", ".a=1"])
def test_without_key_or_equals_sign_it_says_what_is_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected section\.key=value"):
        parse_override(text)


def test_a_value_that_is_not_yaml_names_the_override() -> None:
    with pytest.raises(ConfigError, match=r"^-o a\.b: not valid YAML"):
        parse_override("a.b=[1")


def test_a_value_is_not_repeated_when_the_key_is_wrong() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override("=sk-secret")
    assert "sk-secret" not in str(caught.value)

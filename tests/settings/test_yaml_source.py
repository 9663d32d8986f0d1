from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.yaml import Mark, lookup, parse_yaml, plain
from skillopt_ci.errors import ConfigError

FILE = Mark(Path("a.yaml"), 1)


def read(text: str) -> object:
    return plain(parse_yaml(text, FILE))


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("2:1:7", "2:1:7"),
        ("2026-01-01", "2026-01-01"),
        ("1e-9", 1e-9),
        ("1_000", 1000),
        ("0x1F", 31),
        ("010", "010"),
        ("-1.5", -1.5),
        ("yes", True),
        ("~", None),
        ("'4'", "4"),
        ("=", "="),
    ],
)
def test_scalars_are_what_people_mean(scalar: str, value: object) -> None:
    assert read(f"key: {scalar}") == {"key": value}


def test_every_key_knows_its_line() -> None:
    tree = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - d: 2\n", FILE)
    assert lookup(tree, ("a", "c", 1, "d")).mark == Mark(Path("a.yaml"), 5)


def test_keys_are_taken_as_text() -> None:
    assert read("1: a\nno: b\n") == {"1": "a", "no": "b"}


def test_a_doubled_key_is_an_error_that_names_both_lines() -> None:
    with pytest.raises(ConfigError, match=r"^a\.yaml:3: .*'a' stands already in line 1"):
        read("a: 1\nb: 2\na: 3\n")


def test_doubled_keys_are_found_at_any_depth() -> None:
    with pytest.raises(ConfigError, match=r"^a\.yaml:2: .*'b'"):
        read("a: [{b: 1,\n b: 2}]")


def test_merge_keys_and_aliases_of_merged_mappings() -> None:
    tree = read("b: &b {x: 1}\nc: &c {<<: *b, x: 2, y: 3}\nd: *c\n")
    assert tree == {"b": {"x": 1}, "c": {"x": 2, "y": 3}, "d": {"x": 2, "y": 3}}


def test_an_empty_file_is_an_empty_mapping() -> None:
    assert read("# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!python/object:os.system {}", "only plain data"),
        ("a: !!binary aGk=", "only plain data"),
        ("a: 1\n---\nb: 2", "single document"),
        ("? [a]\n: b", "a key must be text"),
        ("a: [1", "flow sequence"),
        ("a: &a [*a]", "alias that contains itself"),
        ("[" * 3000, "nested too deeply"),
        ("a: \x01", "not allowed"),
        ("a: !!int x", "int"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(text)


def plain_or_refused(text: str) -> bool:
    """Whether ``text`` is read as nothing but plain data, or refused with the file's name."""
    try:
        return is_plain(read(text))
    except ConfigError as refused:
        return str(refused).startswith("a.yaml:")


def is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(is_plain(inner) for inner in value)
    return value is None or type(value) in {str, int, float, bool}


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    assert plain_or_refused(text)


@given(st.text(alphabet=st.sampled_from("ab: \n-[]{},&*<!~'\"1.#|>?"), max_size=30))
def test_any_yaml_is_read_or_refused(text: str) -> None:
    assert plain_or_refused(text)

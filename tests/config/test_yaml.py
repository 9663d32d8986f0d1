from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config import yaml
from skillopt_ci.config.yaml import Mark, Node, Problem, lookup, merge, parse_yaml, plain
from skillopt_ci.errors import ConfigError, ExitCode

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
def test_scalars_are_what_people_mean(scalar, value):
    assert read(f"key: {scalar}") == {"key": value}


def test_every_key_knows_its_line():
    tree = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - d: 2\n", FILE)
    assert lookup(tree, ("a", "c", 1, "d")).mark == Mark(Path("a.yaml"), 5)
    assert read("1: a\nno: b\n") == {"1": "a", "no": "b"}


def test_merge_keys_and_aliases_of_merged_mappings():
    tree = read("b: &b {x: 1}\nc: &c {<<: *b, x: 2, y: 3}\nd: *c\n")
    assert tree == {"b": {"x": 1}, "c": {"x": 2, "y": 3}, "d": {"x": 2, "y": 3}}
    assert read("# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!python/object:os.system {}", "only plain data"),
        ("a: !!binary aGk=", "only plain data"),
        ("a: 1\n---\nb: 2", "single document"),
        ("? [a]\n: b", "a key must be text"),
        ("a: [1", "flow sequence"),
        ("a: &a [*a]", "aliases repeat more than"),
        ("[" * 700, "nested too deeply"),
        ("a: \x01", "not allowed"),
        ("a: !!int x", "int"),
        ("a: 1\nb: 2\na: 3\n", r"^a\.yaml:3: .*'a' is repeated from line 1"),
        ("a: [{b: 1,\n b: 2}]", r"^a\.yaml:2: .*'b'"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_in_words(text, words):
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


@given(st.text() | st.text(alphabet=st.sampled_from("ab: \n-[]{},&*<!~'\"1.#|>?"), max_size=30))
def test_any_text_is_read_or_refused(text):
    assert plain_or_refused(text)


HERE, THERE = Mark(Path("here"), 1), Mark(Path("there"), 1)


def tree(value: object, mark: Mark = HERE) -> Node:
    if isinstance(value, dict):
        return Node({key: tree(child, mark) for key, child in value.items()}, mark)
    if isinstance(value, list):
        return Node(tuple(tree(item, mark) for item in value), mark)
    assert value is None or isinstance(value, bool | int | float | str)
    return Node(value, mark)


def merged(base: object, child: object) -> object:
    return plain(merge(tree(base), tree(child)))


REGEX = {"type": "regex", "pattern": "x"}


@pytest.mark.parametrize(
    ("base", "child", "both"),
    [
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}, "b": 3}, {"a": {"x": 1, "y": 2}, "b": 3}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        *(({"a": [{}]}, {}, {"a": [{}]}), ({}, {"a": [{}]}, {"a": [{}]})),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"scorer": REGEX}, {"scorer": {"type": "exact"}}, {"scorer": {"type": "exact"}}),
        (REGEX, {"type": "regex", "negate": True}, {**REGEX, "negate": True}),
        ({"path": "a", "seed": 1}, {"split_dir": "b"}, {"split_dir": "b"}),
        ({"path": "a", "seed": 1}, {"limit": 2}, {"path": "a", "seed": 1, "limit": 2}),
    ],
)
def test_mappings_of_one_kind_merge_and_the_child_wins(base, child, both):
    assert merged(base, child) == both


def test_what_is_inherited_keeps_its_place():
    both = merge(tree({"a": {"x": 1}}, THERE), tree({"a": {"y": 2}}, HERE))
    assert lookup(both, ("a", "x")).mark == THERE
    assert lookup(both, ("a", "y")).mark == HERE


def test_lookup_stops_at_the_deepest_that_exists():
    assert plain(lookup(tree({"a": [{"b": 1}]}), ("a", 0, "missing", "deeper"))) == {"b": 1}
    assert plain(yaml.nested(("a", "b"), tree(1))) == {"a": {"b": 1}}


PLACE = Path("a.yaml")


def test_one_line_for_each_problem_in_reading_order():
    error = yaml.InvalidConfigError(
        [
            Problem(Mark(override="x.y"), "x.y", "third"),
            Problem(Mark(PLACE, 9), "b", "second"),
            Problem(Mark(PLACE, 2), "", "first"),
        ]
    )
    assert str(error) == "a.yaml:2: first\na.yaml:9: b: second\n-o x.y: third"
    assert (error.file, error.line, error.exit_code) == (PLACE, 2, ExitCode.USAGE)


@pytest.mark.parametrize(
    ("mark", "key", "text", "told"),
    [
        (Mark(override="x"), "x.y", "wrong", "-o x: x.y: wrong"),
        (Mark(PLACE), "", "empty", "a.yaml: empty"),
    ],
)
def test_a_problem_names_its_place(mark, key, text, told):
    assert Problem(mark, key, text).with_place() == told


def test_load_yaml_takes_long_documents_and_ordinary_aliases():
    items = ", ".join("*one" for _ in range(200))
    assert yaml.load_yaml(f"one: &one {{a: 1}}\nall: [{items}]")["all"] == [{"a": 1}] * 200

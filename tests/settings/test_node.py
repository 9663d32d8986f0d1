from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.yaml import Mark, Node, lookup, merge, nested, plain

HERE, THERE = Mark(Path("here"), 1), Mark(Path("there"), 1)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def tree(value: object, mark: Mark = HERE) -> Node:
    if isinstance(value, dict):
        return Node({key: tree(child, mark) for key, child in value.items()}, mark)
    if isinstance(value, list):
        return Node(tuple(tree(item, mark) for item in value), mark)
    assert value is None or isinstance(value, bool | int | float | str)
    return Node(value, mark)


def merged(base: object, child: object) -> object:
    return plain(merge(tree(base), tree(child)))


def test_mappings_merge_and_the_child_wins() -> None:
    assert merged({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}, "b": 3}) == {
        "a": {"x": 1, "y": 2},
        "b": 3,
    }


def test_lists_are_replaced() -> None:
    assert merged({"a": [1, 2]}, {"a": [3]}) == {"a": [3]}


def test_another_type_of_scorer_replaces_its_base() -> None:
    base = {"scorer": {"type": "regex", "pattern": "x"}}
    assert merged(base, {"scorer": {"type": "exact"}}) == {"scorer": {"type": "exact"}}


def test_the_same_type_of_scorer_is_merged() -> None:
    base = {"type": "regex", "pattern": "x"}
    assert merged(base, {"type": "regex", "negate": True}) == {**base, "negate": True}


def test_tasks_given_another_way_replace_their_base() -> None:
    assert merged({"path": "a", "seed": 1}, {"split_dir": "b"}) == {"split_dir": "b"}


def test_tasks_given_the_same_way_are_merged() -> None:
    assert merged({"path": "a", "seed": 1}, {"limit": 2}) == {"path": "a", "seed": 1, "limit": 2}


@given(PLAIN)
def test_merging_nothing_changes_nothing(value: object) -> None:
    base = {"key": value}
    assert merged(base, {}) == base
    assert merged({}, base) == base
    assert merged(base, base) == base


def test_what_is_inherited_keeps_its_place() -> None:
    both = merge(tree({"a": {"x": 1}}, THERE), tree({"a": {"y": 2}}, HERE))
    assert lookup(both, ("a", "x")).mark == THERE
    assert lookup(both, ("a", "y")).mark == HERE


def test_lookup_stops_at_the_deepest_that_exists() -> None:
    found = lookup(tree({"a": [{"b": 1}]}), ("a", 0, "missing", "deeper"))
    assert plain(found) == {"b": 1}


def test_nested_builds_a_path() -> None:
    assert plain(nested(("a", "b"), tree(1))) == {"a": {"b": 1}}

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from skillopt_ci.config.base import Section, meanings
from skillopt_ci.config.config import Config
from skillopt_ci.config.reference import fields, json_schema, sections

COMMITTED = Path(__file__).parents[2] / "configs" / "schema.json"


def accepts(file: object) -> bool:
    return bool(Draft202012Validator(json_schema()).is_valid(file))


def described(
    section: type[Section], seen: frozenset[type] = frozenset()
) -> Iterator[tuple[str, bool]]:
    """Every key with whether it (or the section it holds) explains itself."""
    meant = meanings(section)
    for name, field in fields(section).items():
        inner = [s for s in sections(field.annotation) if s not in seen]
        yield f"{section.__name__}.{name}", bool(meant.get(name) or inner or name == "type")
        for below in inner:
            yield from described(below, seen | {section, *inner})


def test_the_committed_schema_is_current() -> None:
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == json_schema()


def test_it_is_a_valid_schema() -> None:
    validator = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    assert [*validator.iter_errors(json_schema())] == []


@pytest.mark.parametrize(
    "file",
    [
        {"_base_": "base.yaml"},
        {"model": {"target": {"model": "m"}}},
        {"tasks": {"path": "a"}, "scorer": {"type": "f1"}},
    ],
)
def test_parts_that_a_base_completes_are_accepted(file: object) -> None:
    assert accepts(file)


@pytest.mark.parametrize(
    "file",
    [
        {"_base_": ["a", "b"]},
        {"trian": {}},
        {"train": {"batch_size": 0}},
        {"tasks": {"path": "a", "selection": "b"}},
        {"scorer": {"type": "f2"}},
        {"scorer": {"type": "f1", "pattern": "x"}},
    ],
)
def test_slips_are_marked(file: object) -> None:
    assert not accepts(file)


def test_every_key_is_described() -> None:
    assert [name for name, explained in described(Config) if not explained] == []

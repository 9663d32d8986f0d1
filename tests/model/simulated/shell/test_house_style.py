from typing import Any

import pytest

from skillopt_ci.demo import models
from skillopt_ci.demo.models import (
    ALL_CONVENTIONS,
    HOUSES_BY_NAME,
    PLATITUDES,
    Convention,
    Stance,
    conventions_of,
    stances,
)
from skillopt_ci.prompts.library import Prompts

RULES = [(c, rule) for c in ALL_CONVENTIONS for rule in c.rules]


def _taken(text: str) -> dict[str, Stance]:
    return {c.name: s for c in ALL_CONVENTIONS if (s := c.stance(text)) is not None}


@pytest.mark.parametrize(("convention", "rule"), RULES)
def test_a_rule_speaks_for_its_own_convention_of_its_own_house(
    convention: Convention[Any], rule: str
) -> None:
    assert _taken(rule) == {convention.name: "for"}


@pytest.mark.parametrize("convention", ALL_CONVENTIONS, ids=lambda c: c.name)
def test_a_harmful_rule_speaks_against_its_own_convention_only(
    convention: Convention[Any],
) -> None:
    assert _taken(convention.harmful) == {convention.name: "against"}


def test_names_and_failures_tell_conventions_apart() -> None:
    assert len(HOUSES_BY_NAME) == len(ALL_CONVENTIONS)
    failures = [c.failure for c in ALL_CONVENTIONS]
    assert not [a for a in failures for b in failures if a in b and a is not b]


@pytest.mark.parametrize("text", PLATITUDES)
def test_a_platitude_says_nothing(text: str) -> None:
    assert _taken(text) == {}


@pytest.mark.parametrize("name", ["target", "agent", "external"])
def test_the_prompts_around_a_skill_say_nothing(name: str) -> None:
    said = stances(Prompts.load().with_skill(name, "SKILL"))
    assert {convention: taken for convention, taken in said.items() if taken} == {}


@pytest.mark.parametrize(
    ("name", "statement", "stance"),
    [
        ("shebang", "Never start with #!/bin/bash", "for"),
        ("place", "All scripts live in the folder jobs", "for"),
        ("dashes", "Use kebab-case for file names", "for"),
        ("strict", "Do not write set -eu", "against"),
        ("owner", "Add an owner comment", "for"),
        ("progress", "Messages belong on stderr", "for"),
        ("missing", "If the input is missing, exit 3", "for"),
        ("executable", "Run chmod +x on it", "for"),
    ],
)
def test_paraphrases_are_understood(name: str, statement: str, stance: Stance) -> None:
    assert HOUSES_BY_NAME[name].stance(statement) == stance


def test_the_house_is_that_of_the_work() -> None:
    order = "Order: The job `logs` counts the lines of `data/logs.txt`."
    assert conventions_of(["hello", order]) == models.SHELL_CONVENTIONS
    assert "separator" in {c.name for c in conventions_of(["hello"])}

"""What a run needs of computers is found before anything is paid for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.build import check_computers
from skillopt_ci.config.loading import load
from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message
from skillopt_ci.rollout.computer_pool import open_computer_pool
from skillopt_ci.tasks.task import ComputerTask, Splits, Task

if TYPE_CHECKING:
    from pathlib import Path

AGENT = "rollout.solver={type: agent}"
DOCKER = "rollout.computer={type: docker}"


def check(root: Path, block: ComputerBlock | None, *overrides: str) -> None:
    own = None if block is None else ComputerTask(block)
    task = Task("greet", (Message("user", "Say hello."),), computer=own)
    loaded = load(root / "skillopt.yaml", overrides)
    places = open_computer_pool(loaded.config, root, dict(os.environ))
    check_computers(Splits((task,), (), ()), loaded.config, places)


def refusal(root: Path, block: ComputerBlock | None, *overrides: str) -> str | None:
    """Why a run with such a task is not begun, None if it is begun."""
    try:
        check(root, block, *overrides)
    except UsageError as error:
        return error.message
    return None


@pytest.mark.parametrize(
    ("block", "overrides", "said"),
    [
        (None, [AGENT], "rollout.solver: agent needs a computer"),
        (ComputerBlock(), [], "task 'greet' needs a computer"),
        (None, [AGENT, DOCKER], "agent needs a container, and no image is named for task 'greet'"),
        (ComputerBlock(), [DOCKER], "task 'greet' needs a container, and no image is named"),
    ],
)
def test_what_is_missing_is_told(
    untrained: Path, block: ComputerBlock | None, overrides: list[str], said: str
) -> None:
    assert said in (refusal(untrained, block, *overrides) or "")


@pytest.mark.parametrize(
    ("block", "overrides"),
    [
        (None, []),
        (None, [DOCKER]),
        (ComputerBlock(image="own:1"), [AGENT, DOCKER]),
        (ComputerBlock(), [AGENT, DOCKER, "rollout.computer.image=all:1"]),
        (ComputerBlock(), [AGENT, DOCKER, "rollout.task={image: 'all:1'}"]),
    ],
)
def test_what_is_there_suffices(
    untrained: Path, block: ComputerBlock | None, overrides: list[str]
) -> None:
    assert refusal(untrained, block, *overrides) is None

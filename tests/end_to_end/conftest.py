import os
import signal
from collections.abc import Callable
from pathlib import Path

import forked
import pytest
from command_line import Finished, skillopt_ci

from tests.conftest import Checkout

Killed = Callable[["Checkout", int], None]
Command = Callable[..., Finished]


@pytest.fixture
def train_until_killed() -> Killed:
    """Train in a process that dies at the n-th finished stage, or (for 0) when a hook kills it."""

    def train(checkout: Checkout, stage: int = 0) -> None:
        script = Path(__file__).with_name("mortal.py")
        words = [str(script), str(checkout.folder), "stages", str(stage)]
        done = forked.run(words, cwd=Path.cwd(), env=dict(os.environ))
        assert done.returncode == -signal.SIGKILL, done.stderr

    return train


@pytest.fixture
def command() -> Command:
    """Run ``skillopt-ci`` in a checkout; ``env`` comes on top of the environment."""
    return lambda checkout, *words, **env: skillopt_ci(checkout.folder, *words, **env)

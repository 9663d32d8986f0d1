import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import forked
import pytest

from tests.conftest import Checkout

Killed = Callable[["Checkout", int], None]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


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

    def run(checkout: Checkout, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "DEMO_KEY": "sk-demo-key", **env}
        return forked.run(["-m", "skillopt_ci", *args], cwd=checkout.folder, env=environ)

    return run

"""The installed command, run in a checkout as a person would."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("skillopt-ci")

Finished = subprocess.CompletedProcess[str]


def skillopt_ci(folder: Path, *words: str | Path, seconds: float = 60) -> Finished:
    """Run the command in ``folder``; it is killed, and TimeoutExpired raised, after ``seconds``."""
    return subprocess.run(
        [PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "DEMO_KEY": "sk-demo-key"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def overrides(*settings: str) -> list[str]:
    """The options that override ``section.key=value`` each."""
    return [word for setting in settings for word in ("-o", setting)]

"""Commands in this process, on the tiny world's repositories."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Workshop

#: Whatever a person's shell may hold that SkillOpt, or a provider, takes for an answer.
_OURS = ("OPENAI_", "ANTHROPIC_", "AZURE_", "CODEX_", "OPTIMIZER_", "TARGET_", "CLAUDE_", "QWEN_")


@dataclass(frozen=True)
class Done:
    """What a command said and ended with."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture
def cli(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Run ``skillopt-ci`` in a folder, in this process."""
    from skillopt_ci.cli.main import main

    for name in os.environ:
        if name.startswith(_OURS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-key")
    monkeypatch.setenv("DEMO_KEY", "sk-demo-key")

    def run(folder: Path, *words: str) -> Done:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = main(list(words))
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return run

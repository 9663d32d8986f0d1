"""Commands in this process, on the tiny world's repositories."""

import os

import pytest
from command_line import Cli, command_of

from tests.conftest import Workshop

#: Whatever a person's shell may hold that SkillOpt, or a provider, takes for an answer.
_OURS = ("OPENAI_", "ANTHROPIC_", "AZURE_", "CODEX_", "OPTIMIZER_", "TARGET_", "CLAUDE_", "QWEN_")


@pytest.fixture
def cli(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    for name in os.environ:
        if name.startswith(_OURS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-key")
    monkeypatch.setenv("DEMO_KEY", "sk-demo-key")
    return command_of(capsys, monkeypatch)

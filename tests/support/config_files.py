"""Fixtures that load a configuration from its text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.loading import Loaded, load
from skillopt_ci.errors import ConfigError

MINIMAL = """\
run: triage
skill: SKILL.md
tasks: {path: tasks.jsonl}
model:
  target: {provider: simulated, model: small}
  optimizer: {provider: simulated, model: large}
"""
#: What several runs have in common, and a file of two.
COMMON = """\
tasks: {train: a.jsonl, selection: b.jsonl}
model:
  target: {provider: simulated, model: m, retries: 3}
  optimizer: {provider: simulated, model: m}
train: {batch_size: 8}
"""
TWO_RUNS = f"""{COMMON}
runs:
  - run: invoices
    skill: skills/invoices/SKILL.md
    train: {{num_epochs: 2}}
  - {{run: letters, skill: skills/letters/SKILL.md, model: {{target: simulated/other}}}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file below the test's folder and returns its path."""

    def write_file(text: str, name: str = "skillopt.yaml") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return write_file


@pytest.fixture
def load_text(write: Callable[..., Path]) -> Callable[..., Loaded]:
    """Loads a configuration from its whole text."""
    return lambda text, *overrides, environ=None: load(write(text), overrides, environ or {})


@pytest.fixture
def load_with(load_text: Callable[..., Loaded]) -> Callable[..., Loaded]:
    """Loads a minimal valid configuration (six lines) with more text after it."""
    return lambda extra="", *overrides: load_text(MINIMAL + extra, *overrides)


@pytest.fixture
def complaint(load_text: Callable[..., Loaded], tmp_path: Path) -> Callable[..., str]:
    """The message for an invalid text (the minimal one's, if it is only a part), less folders."""

    def message(text: str, *overrides: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_text(text, *overrides)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return message


@pytest.fixture
def complaint_with(complaint: Callable[..., str]) -> Callable[..., str]:
    """The message for the minimal configuration with more text after its six lines."""
    return lambda extra="", *overrides: complaint(MINIMAL + extra, *overrides)

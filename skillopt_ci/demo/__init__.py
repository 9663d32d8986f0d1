"""Offline training: an example with skill and tasks, and the simulated models."""

from importlib import resources
from pathlib import Path

from skillopt_ci.errors import UsageError
from skillopt_ci.util import write_atomically

EXAMPLE_FILES = (
    "skillopt.yaml",
    "skills/ledger/SKILL.md",
    "tasks/train.jsonl",
    "tasks/selection.jsonl",
    "tasks/test.jsonl",
)


def write_example(target: Path) -> None:
    """Write the example to ``target``. If one of its files exists, raises UsageError instead."""
    if present := [name for name in EXAMPLE_FILES if (target / name).exists()]:
        raise UsageError(
            f"{target} already has {', '.join(present)}: nothing was written.",
            hint="Choose an empty folder for the example.",
        )
    source = resources.files(__package__) / "files"
    for name in EXAMPLE_FILES:
        write_atomically(target / name, source.joinpath(name).read_bytes().decode())

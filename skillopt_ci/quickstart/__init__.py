"""The bundled example: a skill, its tasks and a configuration that trains it offline."""

import os
import tempfile
from importlib import resources
from pathlib import Path

from skillopt_ci.errors import UsageError

EXAMPLE_FILES = (
    "skillopt.yaml",
    "skills/ledger/SKILL.md",
    "tasks/train.jsonl",
    "tasks/selection.jsonl",
    "tasks/test.jsonl",
)


def write_example(target: Path) -> None:
    """Write the example into the folder ``target``, which is made if needed.

    Raises ``UsageError``, before anything is written, if one of its files exists already.
    """
    present = [name for name in EXAMPLE_FILES if (target / name).exists()]
    if present:
        raise UsageError(
            f"{target} already has {', '.join(present)}: nothing was written.",
            hint="Choose an empty folder for the example.",
        )
    source = resources.files(__name__) / "files"
    for name in EXAMPLE_FILES:
        _write(target / name, source.joinpath(name).read_bytes())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)

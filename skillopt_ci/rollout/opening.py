"""The computers that a configuration asks for."""

from collections.abc import Mapping
from pathlib import Path

from skillopt_ci.config.config import Config
from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.rollout.places import Places
from skillopt_ci.tasks.records import task_files
from skillopt_ci.tasks.task import ComputerTask


def open_places(config: Config, root: Path, environ: Mapping[str, str]) -> Places | None:
    """The computers that are configured; None if none are.

    Raises UsageError for files in `rollout.task` that are not there.
    """
    settings = config.rollout.computer
    if settings is None:
        return None
    # Imported late: runs that only chat need none of it.
    from skillopt_ci.computer.build import computers, spec

    common = None if config.rollout.task is None else _common(config.rollout.task, root)
    return Places(computers(settings, environ), spec(settings), common)


def _common(block: ComputerBlock, root: Path) -> ComputerTask:
    try:
        return ComputerTask(block, task_files(block.files, root))
    except (TaskFileError, ValueError) as error:
        raise UsageError(f"rollout.task: files: {error}") from error

"""From a record of a file to a task."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.errors import TaskFileError
from skillopt_ci.messages import Message
from skillopt_ci.tasks.attachments import task_files
from skillopt_ci.tasks.entry import TaskEntry
from skillopt_ci.tasks.explain import explain
from skillopt_ci.tasks.pictures import is_picture, task_images
from skillopt_ci.tasks.problems import Problem
from skillopt_ci.tasks.skillopt_item import from_skillopt, is_skillopt_item
from skillopt_ci.tasks.source import Record
from skillopt_ci.tasks.task import ComputerTask, Task, TaskFile, TaskImage


def to_task(record: Record) -> Task | list[Problem]:
    """The task that ``record`` describes, or everything that is wrong with it."""
    if fault := _unwritable(record.value):
        return [Problem(record.file, record.line, fault)]
    try:
        entry = TaskEntry.model_validate(_own_form(record))
        return _task(entry, record)
    except ValidationError as error:
        return [
            Problem(record.file, record.line_of(key), message) for key, message in explain(error)
        ]
    except _FilesError as error:
        return [Problem(record.file, record.line_of(error.key), f"{error.key}: {error}")]


def _unwritable(value: object) -> str:
    """Why ``value`` cannot become a request or a record later; empty if it can."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return "half of a surrogate pair is not a character"
    except (ValueError, RecursionError) as error:
        return f"cannot be written as JSON: {error}"
    return ""


def _own_form(record: Record) -> Mapping[str, object]:
    value = record.value
    if record.name is not None:
        value = {"id": record.name, **value}
    return from_skillopt(value) if is_skillopt_item(value) else value


def _task(entry: TaskEntry, record: Record) -> Task:
    asked, folder = entry.messages or (), record.file.parent
    messages = tuple(Message(message.role, message.content) for message in asked)
    files = entry.files
    pictures = () if isinstance(files, dict) else tuple(filter(is_picture, files))
    texts = files if isinstance(files, dict) else [name for name in files if name not in pictures]
    return Task(
        id=entry.id,
        messages=messages or (Message("user", entry.prompt or ""),),
        references=entry.references,
        reference_text=entry.reference_text,
        task_type=entry.task_type,
        files=_files(texts, folder, "files"),
        images=_images((*pictures, *entry.images), folder),
        metadata=entry.metadata,
        scorer=entry.scorer,
        file=record.file,
        line=record.line,
        computer=None if entry.computer is None else _computer(entry.computer, folder),
    )


def _computer(block: ComputerBlock, folder: Path) -> ComputerTask:
    return ComputerTask(block, _files(block.files, folder, "computer"))


def _files(
    files: Mapping[str, str] | Sequence[str], folder: Path, key: str
) -> tuple[TaskFile, ...]:
    try:
        return task_files(files, folder)
    except (TaskFileError, ValueError) as error:
        raise _FilesError(key, str(error)) from error


def _images(names: Sequence[str], folder: Path) -> tuple[TaskImage, ...]:
    try:
        return task_images(names, folder)
    except (TaskFileError, ValueError) as error:
        raise _FilesError("images", str(error)) from error


class _FilesError(Exception):
    """Files that cannot be used, under the entry's ``key``."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key

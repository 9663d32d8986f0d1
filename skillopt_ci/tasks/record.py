"""From a record of a file to a task."""

import json
from collections.abc import Mapping

from pydantic import ValidationError

from skillopt_ci.chat import Message
from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks.attachments import task_files
from skillopt_ci.tasks.entry import TaskEntry
from skillopt_ci.tasks.explain import explain
from skillopt_ci.tasks.problems import Problem
from skillopt_ci.tasks.skillopt_item import from_skillopt, is_skillopt_item
from skillopt_ci.tasks.source import Record
from skillopt_ci.tasks.task import Task


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
    except (TaskFileError, ValueError) as error:
        return [Problem(record.file, record.line_of("files"), f"files: {error}")]


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
    asked = entry.messages or ()
    messages = tuple(Message(message.role, message.content) for message in asked)
    return Task(
        id=entry.id,
        messages=messages or (Message("user", entry.prompt or ""),),
        references=entry.references,
        reference_text=entry.reference_text,
        task_type=entry.task_type,
        files=task_files(entry.files, record.file.parent),
        metadata=entry.metadata,
        scorer=entry.scorer,
        file=record.file,
        line=record.line,
    )

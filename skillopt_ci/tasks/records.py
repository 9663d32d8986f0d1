"""Turns a record of a task file into a task with its files and pictures, or into problems."""

import ast
import hashlib
import json
import os
import re
import string
import unicodedata
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from skillopt_ci.config.base import Section
from skillopt_ci.config.loading import explain
from skillopt_ci.config.rollout import ComputerBlock, Files
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.errors import TaskFileError
from skillopt_ci.messages import Image, Message
from skillopt_ci.tasks.files import TaskProblem, TaskRecord, read_source
from skillopt_ci.tasks.task import ComputerTask, Task, TaskFile, TaskImage
from skillopt_ci.util import read_file


def _printable(value: str) -> str:
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in value):
        raise ValueError(f"{value!r} holds a control character")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


Text = Annotated[str, AfterValidator(_not_blank)]
#: A number is taken as its text.
Written = Annotated[str, Field(coerce_numbers_to_str=True)]
References = Annotated[
    tuple[Written, ...],
    BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value]),
]


class MessageEntry(Section):
    role: Literal["system", "user", "assistant"]
    content: Text


class TaskEntry(Section):
    """The keys of one task; numbers as `id` or in `references` are taken as their text."""

    id: Annotated[
        Written, Field(max_length=200), AfterValidator(_not_blank), AfterValidator(_printable)
    ]
    prompt: Text | None = None
    """What the user asks; a short form of one message."""
    messages: tuple[MessageEntry, ...] | None = None
    """A conversation that ends with the user's turn."""
    references: References = ()
    """Accepted answers: one text or a list."""
    reference_text: str = ""
    """A worked solution or source for the optimizer's eyes, where this is a training task."""
    task_type: str = ""
    files: Files = ()
    """Paths relative to the task file, or names with their text. Paths of pictures (.png, .jpg,
    .webp, .gif) are shown to the model."""
    images: tuple[str, ...] = ()
    """Paths of pictures, relative to the task file."""
    metadata: dict[str, object] = Field(default_factory=dict)
    scorer: ScorerSpec | None = None
    computer: ComputerBlock | None = None
    """What the task needs of the computer that it is worked on with."""

    @model_validator(mode="after")
    def _one_question(self) -> "TaskEntry":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("a task needs `prompt` or `messages`, and not both")
        if self.messages is not None and (not self.messages or self.messages[-1].role != "user"):
            raise ValueError("`messages` must end with a message of the user")
        return self


def task_files(files: Iterable[str] | Mapping[str, str], folder: Path) -> tuple[TaskFile, ...]:
    """The files that a task names; no name may lead out of ``folder``, the task file's own.

    Raises ValueError for an invalid name and TaskFileError for an invalid file.
    """
    names = _checked(files)
    for name in names:
        if clash := next((n for n in names if n.startswith(f"{name}/")), None):
            raise ValueError(f"{name!r} cannot be a file and the folder of {clash!r}")
    texts = (
        files.values()
        if isinstance(files, Mapping)
        else [read_source(_inside(name, folder)) for name in names]
    )
    return tuple(map(TaskFile, names, texts))


def _checked(names: Iterable[str]) -> list[str]:
    checked: list[str] = []
    for name in names:
        path = PurePosixPath(name)
        portable = name.isprintable() and "\\" not in name and path.parts
        if not portable or path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"{name!r} is not a relative path that stays in the task file's folder"
            )
        if str(path) in checked:
            raise ValueError(f"{str(path)!r} stands twice")
        checked.append(str(path))
    return checked


def _inside(name: str, folder: Path) -> Path:
    if not Path(os.path.realpath(folder / name)).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"{name!r} leads out of the task file's folder")
    return folder / name


#: File suffixes of pictures.
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
#: The first bytes of a picture, by kind.
_MAGIC = re.compile(
    rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8[79]a)"
    rb"|(?P<webp>RIFF.{4}WEBP)",
    re.DOTALL,
)
#: In base64 this is just below 5 MB, the limit of the strictest provider.
MOST_BYTES = 3_700_000
MOST_PICTURES = 20


def task_images(names: Iterable[str], folder: Path) -> tuple[TaskImage, ...]:
    paths = _checked(names)
    if len(paths) > MOST_PICTURES:
        raise ValueError(f"{len(paths)} pictures are more than the {MOST_PICTURES} allowed")
    return tuple(_read_picture(name, _inside(name, folder)) for name in paths)


def _read_picture(name: str, file: Path) -> TaskImage:
    try:
        # Check the size before reading: a task file may name any file.
        size = file.stat().st_size
        content = read_file(file) if size <= MOST_BYTES else b""
    except OSError as error:
        raise TaskFileError(f"cannot be read: {error.strerror}", file=file) from error
    if size > MOST_BYTES:
        raise TaskFileError(f"{size:,} bytes are more than {MOST_BYTES:,}", file=file)
    if (found := _MAGIC.match(content)) is None:
        raise TaskFileError("is not a PNG, JPEG, WebP or GIF picture", file=file)
    image = Image(f"image/{found.lastgroup}", b64encode(content).decode("ascii"))
    return TaskImage(name, hashlib.sha256(content).hexdigest(), image)


REFERENCE_KEYS = ("references", "reference", "answers", "answer", "ground_truth", "correct_choice")
_OWN_KEYS = ("id", "task_type", "files", "images", "metadata", "scorer", "reference_text")
_IMAGE, _DOCUMENT_PATH = "image_path", "document_path:"
_RECOGNISED = {*REFERENCE_KEYS, *_OWN_KEYS, _IMAGE}
#: Keys that make up a prompt, which are its headings: for questions, and for SpreadsheetBench.
_ASKING = {
    "question": ("context", "question", "choices"),
    "instruction": ("instruction", "instruction_type", "answer_position"),
}
#: Keys in the raw data of SkillOpt's benchmarks for a task's id, and for its type.
_IDS = ("uid", "questionId")
_TYPES = ("task_type", "topic", "category", "difficulty", "theorem_type", "instruction_type")
#: Keys that distinguish an item of a benchmark from a user's own record.
_RAW = (*_IDS, _IMAGE, "source_files", "source_docs", "theorem_type", "instruction")
_CONTEXT_CHARS = 6000
_DOCUMENT = "[DOC]"
#: In CSV, Hugging Face's data sets have lists as NumPy's ['a' 'b'], in mappings as array(['a']).
_NUMPY = re.compile(
    r"""('(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?)(\s+(?=['"]))?|\barray\(|(?:,\s*dtype=\w+)?\)"""
)


def from_skillopt(value: Mapping[str, object]) -> Mapping[str, object]:
    """An item of SkillOpt's split folders, or of its benchmarks' raw data, under our keys.

    Other keys become metadata. A record without such a prompt is returned unchanged.
    """
    if isinstance(inner := value.get("mcq"), Mapping):
        value = {**{key: one for key, one in value.items() if key != "mcq"}, **inner}
    if {"month", "no"} <= value.keys():
        value = {"id": f"{value['month']}:{value['no']}", **value}
    if isinstance(asked_of := value.get("question"), str) and _DOCUMENT_PATH in asked_of:
        question, _, path = map(str.strip, asked_of.partition(_DOCUMENT_PATH))  # in DocVQA
        value = {**value, "question": question, _IMAGE: value.get(_IMAGE) or path}
    keys = next((keys for key, keys in _ASKING.items() if isinstance(value.get(key), str)), None)
    if keys is None or value.keys() & {"prompt", "messages"}:
        return value
    choices = labelled(value.get("choices"))
    asked = {key: str(value.get(key) or "").strip() for key in keys}
    if "question" in keys:
        if len(context := asked["context"]) > _CONTEXT_CHARS:
            end = context.rfind(_DOCUMENT, 1, _CONTEXT_CHARS + len(_DOCUMENT))
            kept = context[:end].strip() if end > 0 else f"{context[:_CONTEXT_CHARS]}...[truncated]"
            asked["context"] = kept
        asked["choices"] = "\n".join(f"{label}. {text}" for label, text in choices.items())
    entry = {key: value[key] for key in _OWN_KEYS if key in value}
    entry["prompt"] = "\n\n".join(
        f"## {key.replace('_', ' ').capitalize()}\n{one}" for key, one in asked.items() if one
    )
    if (raw_id := next((value[key] for key in _IDS if key in value), None)) is not None:
        entry = {"id": raw_id, **entry}
    if not value.keys().isdisjoint(_RAW):
        entry = {"task_type": kind_of(value), **entry}
    entry["references"] = golds(next((value[key] for key in REFERENCE_KEYS if key in value), []))
    if value.get(_IMAGE) and isinstance(value[_IMAGE], str):
        entry.setdefault("images", [value[_IMAGE]])
    if isinstance(metadata := entry.get("metadata", {}), Mapping):
        rest = {key: value[key] for key in value if key not in {*keys, *_RECOGNISED}}
        entry["metadata"] = {**rest, **({"choices": choices} if choices else {}), **metadata}
    return entry


def kind_of(value: Mapping[str, object]) -> str:
    """The type that a SkillOpt item states, or an empty text."""
    stated = next((value[key] for key in _TYPES if value.get(key)), "")
    return str(stated[0] if isinstance(stated, list) else stated)


def golds(value: object) -> object:
    if isinstance(value, Mapping):
        if isinstance(value.get("aliases"), list) and isinstance(value.get("value"), str):
            return [*dict.fromkeys([value["value"], *map(str, value["aliases"])])]  # in TriviaQA
        keys = ("label", "answers", "ground_truth", "answer", "text", "value")
        found = next((value[key] for key in keys if key in value), None)
        return value if found is None or isinstance(found, Mapping) else golds(found)
    if isinstance(value, list):
        found = [golds(one) if isinstance(one, Mapping) else one for one in value]
        return [one for gold in found for one in (gold if isinstance(gold, list) else [gold])]
    if isinstance(value, str) and value.lstrip().startswith(("[", "{'")):  # JSON may be the answer
        found = _from_cell(value)
        found = golds(found) if isinstance(found, dict) else found
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            return found
    return value


def _from_cell(text: str) -> object:
    """The list or mapping that a cell of CSV shows, or None."""
    if not (shown := text.strip()).startswith(("[", "{")):
        return None
    plain = _NUMPY.sub(lambda found: (found[1] or "") + ("," if found[2] else ""), shown)
    for read, source in ((json.loads, shown), (ast.literal_eval, plain)):
        with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return read(source) or None
    return None


def labelled(choices: object) -> dict[str, str]:
    choices = _from_cell(choices) if isinstance(choices, str) else choices
    if isinstance(choices, Mapping):
        if isinstance(texts := choices.get("text"), list) and isinstance(  # as in ARC
            labels := choices.get("label") or [*string.ascii_uppercase], list
        ):
            choices = dict(zip(map(str, labels), texts, strict=False))
        return {str(label): str(text) for label, text in choices.items()}
    labelled = {}
    listed = choices if isinstance(choices, list) else ()
    for letter, choice in zip(string.ascii_uppercase, listed, strict=False):
        parts = choice if isinstance(choice, Mapping) else {"text": choice}
        texts = (one for key in ("text", "content", "value") if (one := parts.get(key)) is not None)
        labelled[str(parts.get("label") or letter)] = str(next(filter(str, texts), ""))
    return labelled


#: Other tools' names whose spelling is too far from ours for a suggestion.
_ELSEWHERE: Mapping[str | int, str] = {
    **dict.fromkeys(("answer", "answers", "expected", "target"), "references"),
    **dict.fromkeys(("question", "input"), "prompt"),
    "type": "task_type",
}


def to_task(record: TaskRecord) -> Task | list[TaskProblem]:
    try:
        json.dumps(record.value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return [TaskProblem(record.file, record.line, "half of a surrogate pair is no character")]
    except (ValueError, RecursionError) as error:
        return [TaskProblem(record.file, record.line, f"cannot be written as JSON: {error}")]
    if "gamefile" in record.value and "prompt" not in record.value:
        text = "a game of ALFWorld needs `environment: {type: skillopt, adapter: alfworld}`"
        return [TaskProblem(record.file, record.line, text)]
    named = {} if record.name is None else {"id": record.name}
    try:
        entry = TaskEntry.model_validate(from_skillopt({**named, **record.value}))
    except ValidationError as error:
        faults = explain(error, TaskEntry, lambda path: _ELSEWHERE.get(path[0], ""))
        return [TaskProblem(record.file, record.line, _told(path, text)) for path, text in faults]
    folder, files, key = record.file.parent, entry.files, "files"
    pictures: list[str] = []
    if not isinstance(files, dict):
        pictures = [name for name in files if Path(name).suffix.lower() in SUFFIXES]
        files = tuple(name for name in files if name not in pictures)
    needs = entry.computer
    try:
        texts = task_files(files, folder)
        key = "images"
        images = task_images((*pictures, *entry.images), folder)
        key = "computer"
        computer = ComputerTask(needs, task_files(needs.files, folder)) if needs else None
    except (TaskFileError, ValueError) as error:
        return [TaskProblem(record.file, record.line, f"{key}: {error}")]
    asked = tuple(Message(message.role, message.content) for message in entry.messages or ())
    return Task(
        id=entry.id,
        messages=asked or (Message("user", entry.prompt or ""),),
        references=entry.references,
        reference_text=entry.reference_text,
        task_type=entry.task_type,
        files=texts,
        images=images,
        metadata=entry.metadata,
        scorer=entry.scorer,
        file=record.file,
        line=record.line,
        computer=computer,
    )


def _told(path: Sequence[str | int], text: str) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"{''.join(steps)[1:]}: {text}" if path else text

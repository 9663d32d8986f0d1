"""One task: a prompt for the target model, and how to recognize a right answer."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.messages import Image, Message
from skillopt_ci.util import sha256_of_json


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A text file of a task: ``name`` is a relative POSIX path."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class TaskImage:
    """A picture of a task; ``sha256`` is the file's, in hexadecimal."""

    name: str
    sha256: str
    image: Image


@dataclass(frozen=True, slots=True)
class ComputerTask:
    """A task's requirements for its computer; ``files`` are those of ``block``, with content."""

    block: ComputerBlock
    files: tuple[TaskFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One scoreable question, defined in ``line`` of ``file``.

    ``references`` are the accepted answers; ``reference_text`` is a worked solution that no scorer
    uses. The optimizer sees both, but only those of training tasks.
    """

    id: str
    messages: tuple[Message, ...]
    references: tuple[str, ...] = ()
    task_type: str = ""
    files: tuple[TaskFile, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    scorer: ScorerSpec | None = None
    file: Path | None = None
    line: int | None = None
    reference_text: str = ""
    images: tuple[TaskImage, ...] = ()
    computer: ComputerTask | None = None


@dataclass(frozen=True, slots=True)
class Splits:
    """The three disjoint task lists of a run: in file order, or shuffled if divided by ratio."""

    train: tuple[Task, ...]
    selection: tuple[Task, ...]
    test: tuple[Task, ...]

    @property
    def all(self) -> tuple[Task, ...]:
        return (*self.train, *self.selection, *self.test)


# Identity of tasks: the same in substance, or exactly the same.


def content_key(task: Task) -> str:
    """SHA-256 of what the model is asked, ignoring letter case, spacing and Unicode variants."""
    asked = [[message.role, _normalized(message.content)] for message in task.messages]
    files = sorted(_normalized(file.content) for file in task.files)
    images = sorted(image.sha256 for image in task.images)
    # Absent, not empty: tasks without pictures keep the keys from before pictures existed.
    facts: list[object] = [asked, files, *filter(None, [images])]
    if task.computer is not None:  # the same prompt about other files is another task
        own = sorted((file.name, file.content) for file in task.computer.files)
        facts += [own, task.computer.block.setup]
    return sha256_of_json(facts)


def task_sha256(task: Task) -> str:
    """SHA-256 of everything that can change the task's score, so without its file and line."""
    facts: dict[str, object] = {
        "id": task.id,
        "messages": [[message.role, message.content] for message in task.messages],
        "references": task.references,
        "task_type": task.task_type,
        "files": [[file.name, file.content] for file in task.files],
        "metadata": dict(task.metadata),
        "scorer": task.scorer and task.scorer.model_dump(mode="json", by_alias=True),
    }
    # Absent, not empty or null, so that older hashes stay valid.
    if task.images:
        facts["images"] = [[image.name, image.sha256] for image in task.images]
    if task.computer is not None:
        block = task.computer.block.model_dump(mode="json", exclude={"files"}, exclude_unset=True)
        facts["computer"] = [block, [[file.name, file.content] for file in task.computer.files]]
    return sha256_of_json(facts)


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())

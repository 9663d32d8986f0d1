"""One task: a prompt for the target model and what a right answer looks like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.messages import Image, Message


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A text file that belongs to a task: ``name`` is a relative POSIX path."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class TaskImage:
    """A picture that belongs to a task; ``sha256`` is that of the file, in hexadecimal."""

    name: str
    sha256: str
    image: Image


@dataclass(frozen=True, slots=True)
class ComputerTask:
    """What a task needs of its computer; ``files`` are those of ``block``, with their content."""

    block: ComputerBlock
    files: tuple[TaskFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One scoreable question.

    ``references`` are the accepted answers: shown to the optimizer for training tasks, never for
    selection or test tasks. So is ``reference_text``, a worked solution or source that no scorer
    looks at. ``scorer`` is None where the run's own scorer applies, ``computer`` where the task
    says nothing of one. ``file`` and ``line`` say where the task was defined.
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

"""What a task may say in a task file."""

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from skillopt_ci.config.base import Section
from skillopt_ci.config.rollout import ComputerBlock, Files
from skillopt_ci.config.scorers import ScorerSpec


def _id_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _usable_id(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in value):
        raise ValueError(f"{value!r} holds a control character")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _reference_texts(value: object) -> object:
    listed = value if isinstance(value, list) else [value]
    return tuple(
        str(item) if isinstance(item, int | float) and not isinstance(item, bool) else item
        for item in listed
    )


Text = Annotated[str, AfterValidator(_not_blank)]
References = Annotated[tuple[str, ...], BeforeValidator(_reference_texts)]


class MessageEntry(Section):
    """One message of a conversation that the target continues."""

    role: Literal["system", "user", "assistant"]
    content: Text


class TaskEntry(Section):
    """The keys of one task; numbers as `id` or in `references` are taken as their text."""

    id: Annotated[str, Field(max_length=200), AfterValidator(_usable_id), BeforeValidator(_id_text)]
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

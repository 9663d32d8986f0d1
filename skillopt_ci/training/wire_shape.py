"""The agreed shapes of the optimizer model's replies: strict where needed, lenient elsewhere."""

import re
from collections.abc import Iterable
from typing import Annotated, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from skillopt_ci.skill.edit import Source
from skillopt_ci.training.wire_json import WireError

#: No count in a reply means more than this.
MAX_COUNT = 100_000

_LINE_BREAK = re.compile(r"\r\n?")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_WHOLE_NUMBER = re.compile(r"\s*\+?(\d{1,9})(?:\.0*)?\s*", re.ASCII)
_PYDANTIC_WORDS = re.compile(r"^Value error, | or instance of \w+$")


def clean(text: str) -> str:
    """Return ``text`` with plain line breaks and no control characters but these and tabs."""
    return _UNPRINTABLE.sub("", _LINE_BREAK.sub("\n", text))


def whole_number(value: object) -> int | None:
    """Read a non-negative whole number, written as a number or as text; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    match = _WHOLE_NUMBER.fullmatch(str(value))
    return int(match[1]) if match else None


def _count(value: object) -> int | None:
    number = whole_number(value)
    return None if number is None else min(number, MAX_COUNT)


def _cleaned(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


def _text_or_nothing(value: object) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


def _list_or_nothing(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _source(value: object) -> Source | None:
    return next((source for source in get_args(Source) if source == value), None)


_Count = Annotated[int | None, BeforeValidator(_count)]
_Text = Annotated[str, BeforeValidator(_cleaned)]
_Word = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(_cleaned)
]
_Note = Annotated[str, BeforeValidator(_text_or_nothing)]
_Entries = Annotated[list[object], BeforeValidator(_list_or_nothing)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class EditShape(_Shape):
    """One proposed edit; an absent ``content`` is no licence to delete the target."""

    op: _Word
    target: _Text | None = None
    content: _Text | None = None
    support_count: _Count = None
    source_type: Annotated[Source | None, BeforeValidator(_source)] = None
    merge_level: _Count = None

    @model_validator(mode="after")
    def _says_what_to_write(self) -> "EditShape":
        if self.content is None and self.op != "delete":
            raise ValueError("`content` is missing")
        return self


class FailureShape(_Shape):
    """One entry of ``failure_summary``."""

    failure_type: _Note = ""
    description: _Note = ""
    count: _Count = None


class PatchShape(_Shape):
    """The proposal itself; its entries are validated one by one."""

    edits: list[object]
    reasoning: _Note = ""


class ReplyShape(_Shape):
    """An analyst's or merger's reply, whose edits may stand at the top or under ``patch``."""

    patch: PatchShape
    failure_summary: _Entries = []
    success_patterns: _Entries = []

    @model_validator(mode="before")
    @classmethod
    def _edits_under_patch(cls, reply: dict[str, object]) -> dict[str, object]:
        return reply if "patch" in reply or "edits" not in reply else {**reply, "patch": reply}


class RankingShape(_Shape):
    """A choice among numbered edits."""

    selected_indices: list[object]
    reasoning: _Note = ""


_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], reply: object) -> _Model:
    """Return ``reply`` as ``model``; raises :class:`WireError` that names the key at fault."""
    try:
        return model.model_validate(reply)
    except ValidationError as error:
        message = f"The reply does not have the agreed shape: {_explained(error)}."
        raise WireError(message) from error


def usable(model: type[_Model], entries: Iterable[object]) -> tuple[list[_Model], list[str]]:
    """Divide ``entries`` into what ``model`` accepts and what is wrong with the others."""
    accepted: list[_Model] = []
    complaints: list[str] = []
    for entry in entries:
        try:
            accepted.append(model.model_validate(entry))
        except ValidationError as error:
            complaints.append(_explained(error))
    return accepted, complaints


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    message = _PYDANTIC_WORDS.sub("", first["msg"]).replace("valid dictionary", "JSON object")
    return f"`{key}`: {message}" if key else message

"""The agreed shapes of the optimizer model's replies: strict where needed, lenient elsewhere."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypedDict, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from skillopt_ci.skill.edits import Source
from skillopt_ci.skill.regions import unprotected
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


def _with_a_body(document: str) -> str:
    if not unprotected(document):
        raise ValueError("the document has nothing outside of its protected parts")
    return document


def _notes(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(_text_or_nothing, entries)))


def _reminders(value: object) -> tuple[str, ...]:
    """Read notes from a list or a single one, each a text or an object that holds one."""
    entries = value if isinstance(value, list) else [value]
    return _notes([_held(entry) if isinstance(entry, dict) else entry for entry in entries])


def _held(entry: Mapping[str, object]) -> object:
    return entry.get("note") or entry.get("content")


def _list_or_nothing(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _source(value: object) -> Source | None:
    return next((source for source in get_args(Source) if source == value), None)


_Count = Annotated[int | None, BeforeValidator(_count)]
_Text = Annotated[str, BeforeValidator(_cleaned)]
_Word = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(_cleaned)
]
_Document = Annotated[_Word, AfterValidator(_with_a_body)]
_Note = Annotated[str, BeforeValidator(_text_or_nothing)]
_Notes = Annotated[tuple[str, ...], BeforeValidator(_notes)]
_Reminders = Annotated[tuple[str, ...], BeforeValidator(_reminders)]
_Entries = Annotated[list[object], BeforeValidator(_list_or_nothing)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Provenance(TypedDict):
    """Where an edit comes from and how much backs it."""

    source_type: Source
    support_count: int
    merge_level: int
    note_ids: tuple[str, ...]


class ItemShape(_Shape):
    """What every kind of proposed edit may say of its provenance."""

    support_count: _Count = None
    source_type: Annotated[Source | None, BeforeValidator(_source)] = None
    merge_level: _Count = None
    note_ids: _Notes = ()

    def provenance(self, source: Source, default_support: int, max_support: int) -> Provenance:
        """Return what is said, within bounds, or else the defaults."""
        return Provenance(
            source_type=self.source_type or source,
            support_count=max(1, min(self.support_count or default_support, max_support)),
            merge_level=self.merge_level or 0,
            note_ids=self.note_ids,
        )


class EditShape(ItemShape):
    """One proposed edit; an absent ``content`` is no licence to delete the target."""

    op: _Word
    target: _Text | None = None
    content: _Text | None = None

    @model_validator(mode="after")
    def _says_what_to_write(self) -> "EditShape":
        if self.content is None and self.op != "delete":
            raise ValueError("`content` is missing")
        return self


class SuggestionShape(ItemShape):
    """One suggestion; what it is about must be said, the rest may be missing."""

    type: _Note = ""
    title: _Note = ""
    motivation: _Note = ""
    instruction: _Word
    priority_hint: _Note = ""


class CandidateShape(ItemShape):
    """One whole document."""

    title: _Note = ""
    change_summary: _Notes = ()
    new_skill: _Document


class RewriteShape(_Shape):
    """The document as the optimizer rewrote it."""

    reasoning: _Note = ""
    change_summary: _Notes = ()
    new_skill: _Document


class LearningRateShape(_Shape):
    """The number of changes that the optimizer wants applied, still to be made sense of."""

    learning_rate: object
    reasoning: _Note = ""
    confidence: _Note = ""
    risk_notes: _Notes = ()


class FailureShape(_Shape):
    """One entry of ``failure_summary``."""

    failure_type: _Note = ""
    description: _Note = ""
    count: _Count = None


class PatchShape(_Shape):
    """The proposal itself; its entries stand under a key that depends on the update mode."""

    model_config = ConfigDict(extra="allow", frozen=True)

    reasoning: _Note = ""

    def entries(self, key: str) -> list[object]:
        """Return the entries, to be validated one by one; raises :class:`WireError`."""
        extra = self.model_extra or {}
        entries = extra.get(key)
        if isinstance(entries, list):
            return entries
        complaint = "Input should be a valid list" if key in extra else "Field required"
        raise WireError(f"{_WRONG_SHAPE}: `patch.{key}`: {complaint}.")


class ReplyShape(_Shape):
    """An analyst's or merger's reply."""

    patch: PatchShape
    failure_summary: _Entries = []
    success_patterns: _Entries = []
    appendix_notes: _Reminders = ()


class RemindersShape(_Shape):
    """The appendix as the optimizer condensed it."""

    appendix_notes: _Reminders


class RankingShape(_Shape):
    """A choice among numbered edits."""

    selected_indices: list[object]
    reasoning: _Note = ""


_WRONG_SHAPE = "The reply does not have the agreed shape"
_Model = TypeVar("_Model", bound=BaseModel)
_Entry = TypeVar("_Entry")


def validated(model: type[_Model], reply: object) -> _Model:
    """Return ``reply`` as ``model``; raises :class:`WireError` that names the key at fault."""
    try:
        return model.model_validate(reply)
    except ValidationError as error:
        raise WireError(f"{_WRONG_SHAPE}: {_explained(error)}.") from error


def usable(
    read: Callable[[object], _Entry], entries: Iterable[object]
) -> tuple[list[_Entry], list[str]]:
    """Divide ``entries`` into what ``read`` makes of them and what is wrong with the others."""
    accepted: list[_Entry] = []
    complaints: list[str] = []
    for entry in entries:
        try:
            accepted.append(read(entry))
        except ValidationError as error:
            complaints.append(_explained(error))
    return accepted, complaints


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    message = _PYDANTIC_WORDS.sub("", first["msg"]).replace("valid dictionary", "JSON object")
    return f"`{key}`: {message}" if key else message

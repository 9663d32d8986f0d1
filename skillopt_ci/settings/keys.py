"""The keys that the configuration knows, read off its models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from skillopt_ci.settings.base import Section
from skillopt_ci.settings.config import Config


@dataclass(frozen=True, slots=True)
class Location:
    """Where a validation error happened, in the user's terms.

    ``path`` has keys and list indices only. ``section`` is the model that holds the last key and
    ``field`` that key's definition; either is None where the configuration has no such thing.
    """

    path: tuple[str | int, ...]
    section: type[Section] | None
    field: FieldInfo | None


def locate(loc: Sequence[str | int]) -> Location:
    """Translate pydantic's ``loc``, which names the union's branches too, to a location."""
    path: list[str | int] = []
    shapes: list[type[Section]] = [Config]
    section: type[Section] | None = None
    field: FieldInfo | None = None
    for step in loc:
        if isinstance(step, int):
            path.append(step)
        elif len(shapes) > 1:
            shapes = [shape for shape in shapes if _branch(shape) == step]
        else:
            path.append(step)
            section = shapes[0] if shapes else None
            field = fields(section).get(step) if section else None
            shapes = list(sections(field.annotation)) if field else []
    return Location(tuple(path), section, field)


def fields(section: type[Section]) -> dict[str, FieldInfo]:
    """The fields of a section under the names that users write."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def sections(annotation: object) -> Iterator[type[Section]]:
    """Every section that an annotation admits, in order."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from sections(argument)


def homes(name: str) -> tuple[str, ...]:
    """The dotted paths at which a key called ``name`` may stand (scorers aside)."""
    return tuple(path for path in _paths(Config, "") if path.rpartition(".")[2] == name)


def choices(annotation: object) -> tuple[str, ...]:
    """The words that a literal annotation admits."""
    if get_origin(annotation) is Literal:
        return tuple(str(word) for word in get_args(annotation))
    return tuple(word for argument in get_args(annotation) for word in choices(argument))


def _paths(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in fields(section).items():
        yield f"{prefix}{name}"
        inner = list(sections(field.annotation))
        if len(inner) == 1:
            yield from _paths(inner[0], f"{prefix}{name}.")


def _branch(shape: type[Section]) -> str:
    kind = shape.model_fields.get("type")
    return choices(kind.annotation)[0] if kind else shape.__name__

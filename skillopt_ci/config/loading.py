"""Load a configuration: the file, what it builds on, and the command line's overrides."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from types import MappingProxyType

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skillopt_ci.config.base import Section, meanings
from skillopt_ci.config.config import Config
from skillopt_ci.config.layers import choose_run, read_layers, runs_of
from skillopt_ci.config.models import ModelRole, with_long_roles
from skillopt_ci.config.reference import Location, choices, fields, homes, locate, sections
from skillopt_ci.config.yaml import (
    InvalidConfigError,
    Mark,
    Node,
    Problem,
    lookup,
    merge,
    nearest,
    nested,
    parse_yaml,
    plain,
    reading_order,
)
from skillopt_ci.errors import ConfigError

# `-o section.key=value`: one key of the configuration, set on the command line.


def parse_override(text: str) -> Node:
    """The tree that sets one key; the value is YAML, so that `[a, b]`, `null` and `4` are typed.

    Raises :class:`~skillopt_ci.errors.ConfigError` when there is no `=`, no key or no valid value.
    """
    dotted, equals, value = text.partition("=")
    path = [step.strip() for step in dotted.split(".")]
    if not equals or not all(path):
        # What follows may hold a secret that was typed into the wrong place: only the key is shown.
        raise ConfigError(
            f"-o {dotted.strip()}: expected section.key=value",
            hint="for example -o train.num_epochs=2",
        )
    mark = Mark(override=".".join(path))
    leaf = parse_yaml(value, mark) if value.strip() else Node(None, mark)
    return nested(path, leaf)


# The document that `skill` means: a skill named by its folder is the `SKILL.md` inside.

_NAME = "SKILL.md"


def with_skill_file(config: Config, file: Path) -> Config:
    """``config``, which stands in ``file``, with the path of the document itself.

    Raises :class:`~skillopt_ci.errors.ConfigError` for a folder that holds no `SKILL.md`. Whether
    a file exists is not looked at: it may be in git alone.
    """
    place = file.absolute().parent / config.skill
    if not place.is_dir():
        return config
    if (place / _NAME).is_file():
        return config.model_copy(update={"skill": f"{PurePosixPath(config.skill) / _NAME}"})
    raise ConfigError(
        f"skill: {config.skill} is a folder without a {_NAME}",
        file=file,
        hint=_inside(place, config.skill),
    )


def _inside(place: Path, name: str) -> str:
    found = sorted(place.glob(f"*/{_NAME}"))
    if not found:
        return "Name the Markdown file that is to be trained."
    inner = found[0].relative_to(place).as_posix()
    return f"Did you mean {PurePosixPath(name) / inner}?"


# Pydantic's errors in the words of the person who wrote the file.

KeyPath = tuple[str | int, ...]

_SECRET = re.compile(r"(^|_)(key|token|secret|password)(_env)?$", re.IGNORECASE)
_LONGEST_SHOWN = 60
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_too_short": "text that is not empty",
    "too_short": "a list that is not empty",
}


def explain(error: ErrorDetails) -> tuple[KeyPath, str]:
    """The key path that ``error`` is about, and what to say of it in one line."""
    place = locate(error["loc"])
    shapes = list(sections(_annotation(place)))
    if shapes and error["type"] in ("union_tag_invalid", "union_tag_not_found", "dict_type"):
        return _wrong_shape(place, shapes, error["input"])
    return place.path, _words(place, error)


def shown(path: KeyPath, value: object) -> str:
    """A value for a message: in the file's words, short, and never one that may be a secret."""
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None:
        return "nothing"
    if any(_SECRET.search(str(step)) for step in path):
        return "the value (not shown)"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _words(place: Location, error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return _unknown(place)
        case "missing":
            return f"missing. {_about(place)}".strip()
        case "literal_error":
            return _not_among(error["input"], choices(_annotation(place)))
        case "string_pattern_mismatch":
            return f"{shown(place.path, error['input'])} does not fit. {_about(place)}"
    return _mismatch(place, error)


def _unknown(place: Location) -> str:
    name = str(place.path[-1])
    if name == "api_key":
        return (
            "a key does not belong in a file; put it into an environment variable "
            "and give that variable's name as api_key_env"
        )
    known = tuple(fields(place.section)) if place.section else ()
    hint = nearest(name, known)
    if not hint and homes(name) and place.path[0] not in ("tasks", "scorer"):
        hint = f"; did you mean {' or '.join(homes(name))}?"
    return f"unknown key{hint or '; known here: ' + ', '.join(known)}"


def _not_among(value: object, known: tuple[str, ...]) -> str:
    return f"{shown((), value)} is not one of {', '.join(known)}{nearest(str(value), known)}"


def _wrong_shape(
    place: Location, shapes: list[type[Section]], value: object
) -> tuple[KeyPath, str]:
    known = tuple(c for s in shapes for c in choices(_type_of(s)))
    if isinstance(value, dict) and "type" in value:
        return (*place.path, "type"), _not_among(value["type"], known)
    if isinstance(value, dict):
        return (*place.path, "type"), f"missing: one of {', '.join(known)}"
    example = "{type: exact}" if known else "{path: tasks.jsonl}"
    return place.path, f"expected a mapping such as {example}, found {shown(place.path, value)}"


def _mismatch(place: Location, error: ErrorDetails) -> str:
    if error["type"] == "model_type" and ModelRole in sections(_annotation(place)):
        found = shown(place.path, error["input"])
        return f"expected provider/model, such as openai/gpt-5.5, or a mapping, found {found}"
    if error["type"] == "json_invalid":
        return "nested too deeply, or text with characters that are not Unicode"
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    found = shown(place.path, error["input"])
    if error["type"] in _EXPECTED:
        return f"expected {_EXPECTED[error['type']]}, found {found}"
    message = error["msg"].removeprefix("Input should be ")
    return f"expected a value {message}, found {found}"


def _annotation(place: Location) -> object:
    return place.field.annotation if place.field else None


def _type_of(section: type[Section]) -> object:
    kind = section.model_fields.get("type")
    return kind.annotation if kind else None


def _about(place: Location) -> str:
    known = meanings(place.section) if place.section else {}
    key = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    return " ".join(known.get(key, "").split())


# From a configuration tree to the typed configuration.


def validate(tree: Node, known: tuple[Problem, ...] = ()) -> Config:
    """Read ``tree`` as a configuration; nothing is coerced, so that ``yes`` is never a number.

    Raises :class:`~skillopt_ci.errors.ConfigError` with the problems already ``known`` and every
    further one.
    """
    try:
        config = Config.model_validate_json(json.dumps(plain(tree)), strict=True)
    except ValidationError as error:
        found = [explain(details) for details in error.errors(include_url=False)]
        raise InvalidConfigError([*known, *_problems(tree, found)]) from error
    if known:
        raise InvalidConfigError(known)
    return config


def _problems(tree: Node, found: list[tuple[KeyPath, str]]) -> list[Problem]:
    return [
        Problem(lookup(tree, path).mark, ".".join(map(str, path)), text)
        for path, text in found
        if not any(other[: len(path)] == path and other != path for other, _ in found)
    ]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration and where it came from.

    ``root`` is the (absolute) folder of ``file``: every relative path in ``config`` starts there,
    also one that stands in a base file. ``warnings`` are sentences for the person who runs it.
    """

    config: Config
    file: Path
    root: Path
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """Another tool's configuration in our own form: what is wrong with it, what was left out."""

    tree: Node
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


#: Readers of other tools' configuration files, imported only here: each takes the layers, the
#: overrides and the environment, and returns None for files that are not of its tool.
_TRANSLATORS = ("skillopt_ci.integrations.skillopt.config:translated",)


def _translated(
    layers: Sequence[Node], overrides: Sequence[Node], environ: Mapping[str, str]
) -> Translation | None:
    found = (resolve_name(name)(layers, overrides, environ) for name in _TRANSLATORS)
    return next((one for one in found if one is not None), None)


def load(
    file: Path,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = MappingProxyType({}),
    run: str | None = None,
) -> Loaded:
    """Read ``file`` in skillopt-ci's own form or in SkillOpt's.

    Later wins over earlier: bases, the file, in a file of several runs the one called ``run``,
    ``overrides`` (``section.key=value``) in their order. Of ``environ`` SkillOpt's own variables
    count, and only for its form. Raises :class:`~skillopt_ci.errors.ConfigError` naming every
    problem at once, a line for each.
    """
    layers, above = list(read_layers(file)), [parse_override(text) for text in overrides]
    if found := _translated(layers, above, environ):
        found = replace(found, tree=choose_run(found.tree, run))
    else:
        chosen = choose_run(reduce(merge, map(with_long_roles, layers)), run)
        found = Translation(reduce(merge, map(with_long_roles, [chosen, *above])))
    config = with_skill_file(validate(found.tree, found.problems), file)
    return Loaded(
        config,
        file=file,
        root=file.absolute().parent,
        warnings=tuple(w.with_place() for w in sorted(set(found.warnings), key=reading_order)),
    )


def run_names(file: Path) -> tuple[str, ...]:
    """The names of the runs in ``file``, in its order.

    Raises :class:`~skillopt_ci.errors.ConfigError` if the file cannot be read.
    """
    layers = list(read_layers(file))
    if _translated(layers, (), {}):
        return (load(file).config.run,)
    return tuple(run.name for run in runs_of(reduce(merge, layers)) if run.name)

"""The configuration's keys, JSON Schema, changes and fingerprint, read off its models."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic.main import IncEx

from skillopt_ci.config.base import DescribedSchema, Section
from skillopt_ci.config.config import Config, GateConfig
from skillopt_ci.config.models import PROVIDERS
from skillopt_ci.config.rollout import RolloutConfig
from skillopt_ci.util import sha256_of_json

#: Keys of a file that are no part of a run: what it builds on, and its several runs.
BASE = "_base_"
RUNS = "runs"


def locate(
    loc: Sequence[str | int], root: type[Section] = Config
) -> tuple[tuple[str | int, ...], type[Section] | None, FieldInfo | None]:
    """Translate pydantic's ``loc`` below ``root``, which names the union's branches too.

    Returns the keys and list indices, the section that holds the last key, and its definition.
    """
    path: list[str | int] = []
    shapes: list[type[Section]] = [root]
    section: type[Section] | None = None
    field: FieldInfo | None = None
    for step in loc:
        if isinstance(step, int):
            path.append(step)
        elif len(shapes) > 1:
            shapes = [shape for shape in shapes if _branch(shape) == step]
        elif shapes or not isinstance(path[-1], int):  # else a type of an item without keys
            path.append(step)
            section = shapes[0] if shapes else None
            field = fields(section).get(step) if section else None
            shapes = list(sections(field.annotation)) if field else []
    return tuple(path), section, field


def fields(section: type[Section]) -> dict[str, FieldInfo]:
    """Under the names that users write."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def sections(annotation: object) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from sections(argument)


def homes(name: str) -> tuple[str, ...]:
    """The dotted paths at which a key called ``name`` may stand (scorers aside)."""

    def paths(section: type[Section], prefix: str) -> Iterator[str]:
        for key, field in fields(section).items():
            if key == name:
                yield f"{prefix}{key}"
            inner = list(sections(field.annotation))
            if len(inner) == 1:
                yield from paths(inner[0], f"{prefix}{key}.")

    return tuple(paths(Config, ""))


def choices(annotation: object) -> tuple[str, ...]:
    """The words that a literal annotation admits."""
    if get_origin(annotation) is Literal:
        return tuple(str(word) for word in get_args(annotation))
    return tuple(word for argument in get_args(annotation) for word in choices(argument))


def _branch(shape: type[Section]) -> str:
    kind = shape.model_fields.get("type")
    return choices(kind.annotation)[0] if kind else shape.__name__


#: Sections of which a file may give a part and its base the rest.
_INHERITED = ("Models", "ModelRole")
_SHORT = "`provider/model`, such as `openai/gpt-5.5`: everything else is as the provider has it."


def json_schema() -> dict[str, object]:
    """The JSON Schema of one file, in which keys that a base can supply are not required."""
    schema = Config.model_json_schema(by_alias=True, schema_generator=DescribedSchema)
    definitions = cast("dict[str, dict[str, object]]", schema["$defs"])
    for part in (schema, *(definitions[name] for name in _INHERITED)):
        part.pop("required")
    short = {"type": "string", "pattern": f"^({'|'.join(PROVIDERS)})/.", "description": _SHORT}
    definitions["ModelRole"] = {"anyOf": [definitions["ModelRole"], short]}
    base = {
        "type": "string",
        "minLength": 1,
        "description": "Another configuration file to inherit from, relative to this one. "
        "This file's settings win.",
    }
    run = {"type": "object", "required": ["run"], "properties": schema["properties"]}
    runs = {
        "type": "array",
        "minItems": 1,
        "items": {**run, "additionalProperties": False},
        "description": "Several runs in one file, each with its own `run` and settings. Settings "
        "outside the list apply to all of them. `--run NAME` selects one.",
    }
    schema["properties"] = {BASE: base, **schema["properties"], RUNS: runs}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "skillopt-ci configuration",
    }


_LONGEST_VALUE = 40


def changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Each key whose value differs, with both values if short: ``train.batch_size (16 → 8)``."""
    old, new = (dict([*leaves(_LEFT_OUT), *leaves(one)]) for one in (before, after))
    changes = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            change = f"{_shown(old.get(key))} → {_shown(new.get(key))}"
            changes.append(f"{key} ({change})" if len(change) <= 2 * _LONGEST_VALUE else key)
    return tuple(changes)


def leaves(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """What nested mappings hold, by dotted key."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from leaves(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False).strip('"')


#: What of the retired `evaluation.race` every hash holds.
_RACE = {"arms": 0, "tasks": 8, "heats": 2, "pool": 12, "keep": 0.5, "prune": 0.8}
#: What only decides where results are kept, how fast they come, what they may cost and who pays.
TRANSPORT = {
    *("api_key_env", "api_key_file", "env", "timeout", "retries", "max_concurrency", "price"),
    "headers",
}
#: Where people put keys although `api_key_env` and `env` are there for them.
_PERHAPS_SECRET = ("command", "extra_body")
#: How often failures are retried, where attempts run, what is recorded, who can read secrets.
_OF_ROLLOUTS = {"retries", "executor", "events", "programs_can_read_secrets"}
#: Confirmation tells what a merge is worth, and changes no merge.
_WITHOUT_INFLUENCE: dict[str, IncEx | bool] = {
    **dict.fromkeys(("cache", "git", "github", "budget"), True),
    "gradient": {"analyst_workers"},
    "schedule": {"ahead"},
    "evaluation": {"confirm"},
    "rollout": _OF_ROLLOUTS,
    "model": dict.fromkeys(("target", "optimizer", "judge"), TRANSPORT),
}
#: What :func:`influences` leaves out at these defaults, by dotted key; of the gate, each option.
_LEFT_OUT: Mapping[str, object] = {
    "rollout": RolloutConfig().model_dump(mode="json", exclude=_OF_ROLLOUTS),
    "environment": None,
    "gradient.analysts": 1,
    "evaluation.gate": GateConfig().model_dump(mode="json"),
}


def influences(config: Config) -> dict[str, Any]:
    """What of ``config`` influences training, as JSON: not where, how fast and at whose cost.

    Newer sections are left out at their defaults, and retired settings have today's fixed values:
    older hashes stay.
    """
    facts = config.model_dump(mode="json", by_alias=True, exclude=_WITHOUT_INFLUENCE)
    gate = config.evaluation.gate
    # in this order, in which a basis is hashed; newer options follow unless at their defaults
    facts["evaluation"]["gate"] = {
        "policy": "strict",
        "confidence": 0.8,
        "min_effect": 0.0,
        "effect": 0.1,
        "futility": 0.1,
        "attempts": 3,
        "early_stop": gate.early_stop,
        "look_every": gate.look_every,
        "remeasure": False,
        "subset": 0,
        "max_consultations": 0,
        "max_type_loss": gate.max_type_loss,
        **gate.model_dump(mode="json", exclude_defaults=True),
    }
    facts["evaluation"]["race"] = _RACE
    for key, default in _LEFT_OUT.items():
        section, _, inner = key.rpartition(".")
        holder = facts[section] if section else facts
        if holder[inner] == default:
            del holder[inner]
    return facts


def recordable(config: Config) -> dict[str, object]:
    """:func:`influences`, fit to be published: what may hold a secret is there as its hash only."""
    facts = influences(config)
    for role in filter(None, facts["model"].values()):
        role.update({key: sha256_of_json(role[key]) for key in _PERHAPS_SECRET if role[key]})
    return facts

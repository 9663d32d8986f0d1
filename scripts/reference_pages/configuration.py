"""Every key of the configuration, from the typed sections that read it."""

from collections.abc import Iterator
from typing import Any

from reference_pages.json_types import Schema, reference
from reference_pages.objects import part
from skillopt_ci.config.base import DescribedSchema
from skillopt_ci.config.config import Config
from skillopt_ci.config.reference import json_schema

_HEAD = """\
# Configuration

The configuration is a YAML file, by default `skillopt.yaml`. `skillopt-ci config` prints it with
all defaults filled in, `skillopt-ci config schema` prints the JSON Schema for your editor. An
unknown key is an error that gives its line and the nearest name. `-o section.key=value` overrides a
key for one command. `-o 'budget.run={calls: 500}'` leaves the section's other keys as they are; a
scorer of another `type` replaces the file's. Most runs set only `run`, `skill`, `tasks`, `scorer`,
`model` and `budget`.

"""


def page() -> str:
    """The page: the top level, then every section below it."""
    # the schema for editors has what a file may hold besides, but lets a base file supply the rest
    strict = Config.model_json_schema(by_alias=True, schema_generator=DescribedSchema)
    lax = json_schema()
    schema = {**strict, "properties": lax["properties"]}
    definitions: Any = strict["$defs"]
    top = {key: value for key, value in schema.items() if key != "description"}
    parts = [part(top, "top-level", "Top level", definitions)]
    for name, paths in _places(schema).items():
        heading = _heading(definitions[name], name, paths)
        parts.append(part(definitions[name], name, heading, definitions))
    return _HEAD + "\n".join(parts)


def _places(schema: Schema) -> dict[str, list[str]]:
    """Where each definition is used, as paths of keys, in the order of the keys."""
    found: dict[str, list[str]] = {}
    queue: list[tuple[str, Any]] = [("", schema)]
    while queue:
        path, current = queue.pop(0)
        for key, value in current.get("properties", {}).items():
            for name in _references(value):
                place = f"{path}{key}"
                if name not in found:
                    queue.append((f"{place}.", schema["$defs"][name]))
                found.setdefault(name, []).append(place)
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield reference(value)
        for key, inner in value.items():
            if key not in ("default", "discriminator"):
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _heading(definition: Schema, name: str, paths: list[str]) -> str:
    """The keys that hold it; of several shapes of one key, which one it is."""
    kind = definition.get("properties", {}).get("type", {}).get("const")
    places = [path for path in dict.fromkeys(paths) if not path.startswith("runs")]
    first = [path for path in places if not path.endswith(".of")] or places
    if kind:
        return f"`{first[0]}`, `type: {kind}`"
    shown = ", ".join(f"`{path}`" for path in first)
    return f"{shown} as {name}" if first == ["tasks"] else shown

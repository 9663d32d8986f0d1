"""The type of a value, in words, from its JSON Schema."""

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "null": "`null`",
    "object": "mapping",
    "array": "list",
}
_BOUNDS = (
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
)


def type_words(schema: Schema) -> str:
    """What a value has to be; other objects are linked by their names."""
    if "$ref" in schema:
        return link(reference(schema))
    if "const" in schema or "enum" in schema:
        options = schema.get("enum", [schema.get("const")])
        return ", ".join(f"`{_plain(option)}`" for option in options)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(type_words(one) for one in schema[union])
    kind = schema.get("type")
    if kind == "array":
        return _list(schema)
    named = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    if kind == "object" and (values := next((one for one in named if isinstance(one, dict)), None)):
        return f"mapping to {type_words(values)}"
    return " ".join([_WORDS.get(str(kind), "any value"), *_limits(schema)])


def default_words(schema: Schema, *, required: bool) -> str:
    """The value that stands where none is given; what is required has none."""
    if required:
        return "**required**"
    if "default" not in schema:
        return "its own defaults" if "$ref" in schema else ""
    value = schema["default"]
    if isinstance(value, dict) and value:
        return "its own defaults"
    return f"`{_plain(value)}`" if value != "" else "empty"


def reference(schema: Schema) -> str:
    """The name of the object that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def link(name: str) -> str:
    """A link to the part of the same page that describes an object."""
    return f"[{name}](#{anchor(name)})"


def anchor(name: str) -> str:
    """The anchor of an object's part of the page."""
    return name.lower()


def _list(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"list of {', '.join(type_words(one) for one in schema['prefixItems'])}"
    return f"list of {type_words(schema.get('items', {}))}"


def _limits(schema: Schema) -> list[str]:
    limits = [f"{sign} {schema[key]}" for key, sign in _BOUNDS if key in schema]
    return [", ".join(limits)] if limits else []


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

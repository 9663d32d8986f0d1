"""An object of a JSON Schema as a part of a page: a heading, its meaning, a table of its keys."""

from reference_pages.json_types import Schema, anchor, default_words, type_words
from reference_pages.markdown import code, prose, table


def part(schema: Schema, name: str, heading: str, level: int = 2) -> str:
    """The part of a page about the object called ``name``."""
    required = set(schema.get("required", ()))
    rows = (
        (
            code(key),
            type_words(value),
            default_words(value, required=key in required),
            prose(value.get("description", "")),
        )
        for key, value in schema.get("properties", {}).items()
    )
    keys = table(("key", "type", "default", "meaning"), rows) if schema.get("properties") else ""
    lines = [f"{'#' * level} {heading} {{#{anchor(name)}}}", prose(schema.get("description", ""))]
    return "\n\n".join(filter(None, [*lines, keys]))

"""An object of a JSON Schema as a part of a page: a heading, its meaning, a table of its keys."""

from collections.abc import Mapping

from reference_pages.glossary import MISSING, inferred, meaning
from reference_pages.json_types import Schema, anchor, default_words, type_words
from reference_pages.markdown import code, prose, table


def part(
    schema: Schema, name: str, heading: str, definitions: Mapping[str, Schema], level: int = 2
) -> str:
    """The part of a page about the object called ``name``; ``definitions`` are what it links."""
    required = set(schema.get("required", ()))
    rows = (
        (
            code(key),
            type_words(value),
            default_words(value, required=key in required),
            prose(value.get("description") or _meaning(name, key, value, definitions)),
        )
        for key, value in schema.get("properties", {}).items()
    )
    keys = table(("key", "type", "default", "meaning"), rows) if schema.get("properties") else ""
    # an anchor that works on GitHub, too
    title = f'{"#" * level} <a id="{anchor(name)}"></a>{heading}'
    lines = [title, prose(schema.get("description", ""))]
    return "\n\n".join(filter(None, [*lines, keys]))


def _meaning(name: str, key: str, value: Schema, definitions: Mapping[str, Schema]) -> str:
    known = meaning(name, key)
    return (known if known != MISSING else inferred(value, definitions)) or MISSING

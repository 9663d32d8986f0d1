"""What a key means that has no docstring of its own, and which keys have no meaning at all."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

import yaml

from reference_pages.json_types import Schema, reference

_FILE = Path(__file__).with_name("glossary.yaml")
#: Stands in a cell for want of a meaning; no page may hold it.
MISSING = "MEANING MISSING"


@cache
def glossary() -> Mapping[str, Mapping[str, str]]:
    """Meanings by object and key; those of `anywhere` hold in every object."""
    content = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return cast("Mapping[str, Mapping[str, str]]", content)


def meaning(owner: str, key: str) -> str:
    """What ``key`` of the object ``owner`` means."""
    own, anywhere = glossary().get(owner, {}), glossary()["anywhere"]
    return own.get(key) or anywhere.get(key) or MISSING


def inferred(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """What a value's own form says: a section's first sentence, or the kind that it chooses."""
    if "const" in schema:
        return "Selects this type."
    if "$ref" not in schema:
        return ""
    text = str(definitions[reference(schema)].get("description", ""))
    return " ".join(text.partition("\n\n")[0].split())


def unused(pages: Mapping[str, str]) -> list[str]:
    """The glossary's entries that no page shows: of keys that are gone or have a docstring now."""
    whole = "\n".join(pages.values()).replace("\\|", "|")
    return [
        f"{owner}.{key}"
        for owner, entries in glossary().items()
        for key, text in entries.items()
        if f" | {text} |" not in whole
    ]

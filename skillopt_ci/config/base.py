"""The common base of every configuration section."""

import os
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from skillopt_ci.util import attribute_docs

#: What Linux allows a name, in bytes.
_LONGEST_NAME = 255


def _without_zero(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a zero byte, which file names and arguments cannot")
    return text


def _possible(name: str) -> str:
    longest = max(len(os.fsencode(part)) for part in name.split("/"))
    if longest > _LONGEST_NAME:
        raise ValueError(f"a name of {longest} bytes is too long for a file: at most 255 are")
    if re.search(r"[\\\x00-\x1f]", name):  # YAML reads a tab in "a\tasks"
        raise ValueError(f"{name!r} is not a path: separate folders with /, on every system")
    return name


def _inside(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{name!r} is not a path inside the workspace")
    return name


FileName = Annotated[str, Field(min_length=1), AfterValidator(_possible)]
#: A file of an agent's workspace.
PathInside = Annotated[str, Field(min_length=1), AfterValidator(_inside)]
#: A word of a command line.
Argument = Annotated[str, AfterValidator(_without_zero)]


class Section(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """An immutable section; a key that it does not know is an error."""


class DescribedSchema(GenerateJsonSchema):
    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        for key, words in meanings(schema["cls"]).items():
            made["properties"][key]["description"] = words
        return made


def meanings(section: type[BaseModel]) -> dict[str, str]:
    """What is said of the section's keys, by the names that users write."""
    fields, texts = section.model_fields, attribute_docs(section)
    return {fields[name].alias or name: words for name, words in texts.items() if name in fields}

"""The configuration as a JSON Schema, for editors that complete and check YAML."""

from typing import cast

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.described import DescribedSchema
from skillopt_ci.settings.inheritance import BASE
from skillopt_ci.settings.providers import PROVIDERS
from skillopt_ci.settings.runs import RUNS

#: Sections of which a file may give a part and its base the rest.
_INHERITED = ("Models", "ModelRole")
_SHORT = "`provider/model`, such as `openai/gpt-5.5`: everything else is as the provider has it."


def json_schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of one configuration file.

    It is laxer than loading in one point: keys that a base file can supply are not required.
    """
    schema = Config.model_json_schema(by_alias=True, schema_generator=DescribedSchema)
    definitions = cast("dict[str, dict[str, object]]", schema["$defs"])
    for part in (schema, *(definitions[name] for name in _INHERITED)):
        part.pop("required")
    short = {"type": "string", "pattern": f"^({'|'.join(PROVIDERS)})/.", "description": _SHORT}
    definitions["ModelRole"] = {"anyOf": [definitions["ModelRole"], short]}
    base = {
        "type": "string",
        "minLength": 1,
        "description": "Another configuration file to build on, relative to this one. "
        "What stands here wins.",
    }
    run = {"type": "object", "required": ["run"], "properties": schema["properties"]}
    runs = {
        "type": "array",
        "minItems": 1,
        "items": {**run, "additionalProperties": False},
        "description": "Several runs in one file, each with its `run` and what is its own; what "
        "stands around the list holds for all. Name one with --run.",
    }
    schema["properties"] = {BASE: base, **schema["properties"], RUNS: runs}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "skillopt-ci configuration",
    }

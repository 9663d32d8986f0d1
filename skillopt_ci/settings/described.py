"""What the keys of the configuration mean: the text that stands under each field.

pydantic can read these texts when a class is made (`use_attribute_docstrings`), but then every
command does, and it takes longer than the rest of loading.
"""

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from skillopt_ci.util import attribute_docs


class DescribedSchema(GenerateJsonSchema):
    """A JSON Schema whose properties are described."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """The schema of a section."""
        made = super().model_schema(schema)
        for key, words in meanings(schema["cls"]).items():
            made["properties"][key]["description"] = words
        return made


def meanings(section: type[BaseModel]) -> dict[str, str]:
    """What is said of the section's keys, by the names that users write."""
    fields, texts = section.model_fields, attribute_docs(section)
    return {fields[name].alias or name: words for name, words in texts.items() if name in fields}

"""The events of an attempt's record, where this version keeps one."""

import dataclasses
import inspect
import re
from typing import get_args, get_type_hints

from reference_pages.glossary import meaning
from reference_pages.markdown import code, prose, table
from skillopt_ci.rollout.events import RolloutEvent
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.util import attribute_docs


def section() -> str:
    """What an attempt's event stream holds."""
    events = (*get_args(RolloutEvent), Attempt)
    return "\n## Events of an attempt\n\n" + "\n".join(map(_part, events))


def _part(cls: type) -> str:
    texts, types = attribute_docs(cls), get_type_hints(cls)
    rows = [
        (
            code(field.name),
            code(_type_name(types[field.name])),
            prose(texts.get(field.name) or meaning(cls.__name__, field.name)),
        )
        for field in dataclasses.fields(cls)
    ]
    keys = table(("key", "type", "meaning"), rows) if rows else ""
    said = cls.__doc__ or ""
    # dataclasses put the signature where a docstring is missing
    text = "" if said.startswith(f"{cls.__name__}(") else prose(inspect.cleandoc(said))
    return "\n\n".join(filter(None, [f"### {cls.__name__}", text, keys])) + "\n"


def _type_name(annotation: object) -> str:
    """The type as a reader of the record knows it, without the modules that it stands in."""
    if isinstance(annotation, type):
        return annotation.__name__
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(annotation))

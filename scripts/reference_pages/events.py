"""The events of an attempt's record, where this version keeps one."""

import dataclasses
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from reference_pages.glossary import meaning
from reference_pages.markdown import code, prose, table
from skillopt_ci.util import attribute_docs

_MODULES = (
    "skillopt_ci.rollout.recorder",
    "skillopt_ci.rollout.events",
    "skillopt_ci.rollout.steps",
)


def section() -> str:
    """What an attempt's event stream holds; nothing where there is none."""
    modules = [import_module(name) for name in _MODULES if find_spec(name)]
    parts = [_part(cls) for module in modules for cls in _events(module)]
    return "\n## Events of an attempt\n\n" + "\n".join(parts) if parts else ""


def _events(module: ModuleType) -> list[type]:
    """The values that are defined there, in the order of the source."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and dataclasses.is_dataclass(value)
        and value.__module__ == module.__name__
    ]


def _part(cls: type) -> str:
    texts = attribute_docs(cls)
    rows = [
        (
            code(field.name),
            code(_type_name(field.type)),
            prose(texts.get(field.name) or meaning(cls.__name__, field.name)),
        )
        for field in dataclasses.fields(cls)
    ]
    keys = table(("key", "type", "meaning"), rows) if rows else ""
    text = prose(inspect.cleandoc(cls.__doc__ or ""))
    return "\n\n".join(filter(None, [f"### {cls.__name__}", text, keys])) + "\n"


def _type_name(annotation: object) -> str:
    """The type as a reader of the record knows it, without the modules that it stands in."""
    if isinstance(annotation, type):
        return annotation.__name__
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(annotation))

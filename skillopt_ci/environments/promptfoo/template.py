"""Prompt templates: what promptfoo writes for Nunjucks, rendered by Jinja in its sandbox."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from skillopt_ci.errors import UsageError


@cache
def _engine() -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(autoescape=False, keep_trailing_newline=True)


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill ``values`` in; a name without a value is empty, as there.

    Raises UsageError for a template that cannot be read or used.
    """
    try:
        return _engine().from_string(template).render(values)
    except TemplateError as error:
        raise UsageError(f"the template {template[:60]!r} cannot be rendered: {error}") from error


def rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """``value`` with every text in it rendered."""
    match value:
        case str():
            return render(value, values)
        case list():
            return [rendered(one, values) for one in value]
        case dict():
            return {key: rendered(one, values) for key, one in value.items()}
    return value

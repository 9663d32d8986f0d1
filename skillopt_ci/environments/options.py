"""The options of an environment, checked like any other part of the configuration."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from skillopt_ci.config.base import Section
from skillopt_ci.errors import UsageError
from skillopt_ci.tasks.files import did_you_mean

Options = TypeVar("Options", bound=Section)


def read_options(shape: type[Options], given: Mapping[str, object], kind: str) -> Options:
    """Read ``given``, the options of an environment of type ``kind``.

    Raises UsageError with a line for each key that is wrong: what it is, and what was expected.
    """
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        lines = []
        for detail in error.errors(include_url=False):
            path = ".".join(["environment", *map(str, detail["loc"])])
            said = detail["msg"].removeprefix("Value error, ")
            if detail["type"] == "extra_forbidden":
                said = f"unknown key; {did_you_mean(str(detail['loc'][-1]), shape.model_fields)}"
            if detail["type"] == "missing":
                said = f"missing; an environment of type {kind} needs it"
            lines.append(f"{path}: {said}")
        raise UsageError("\n".join(lines)) from None

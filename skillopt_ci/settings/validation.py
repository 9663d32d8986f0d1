"""From a configuration tree to the typed configuration."""

import json

from pydantic import ValidationError

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.explain import KeyPath, explain
from skillopt_ci.settings.node import Node, lookup, plain
from skillopt_ci.settings.problem import InvalidConfigError, Problem


def validate(tree: Node, known: tuple[Problem, ...] = ()) -> Config:
    """Read ``tree`` as a configuration; nothing is coerced, so that ``yes`` is never a number.

    Raises :class:`~skillopt_ci.errors.ConfigError` with the problems already ``known`` and every
    further one.
    """
    try:
        config = Config.model_validate_json(json.dumps(plain(tree)), strict=True)
    except ValidationError as error:
        found = [explain(details) for details in error.errors(include_url=False)]
        raise InvalidConfigError([*known, *_problems(tree, found)]) from error
    if known:
        raise InvalidConfigError(known)
    return config


def _problems(tree: Node, found: list[tuple[KeyPath, str]]) -> list[Problem]:
    return [
        Problem(lookup(tree, path).mark, ".".join(map(str, path)), text)
        for path, text in found
        if not any(other[: len(path)] == path and other != path for other, _ in found)
    ]

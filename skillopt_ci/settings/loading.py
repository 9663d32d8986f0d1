"""Load a configuration: the file, what it builds on, and the command line's overrides."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.inheritance import read_layers
from skillopt_ci.settings.node import merge
from skillopt_ci.settings.overrides import parse_override
from skillopt_ci.settings.problem import reading_order
from skillopt_ci.settings.skillopt.translation import (
    Translation,
    is_skillopt,
    structured,
    translate,
)
from skillopt_ci.settings.validation import validate


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration and where it came from.

    ``root`` is the (absolute) folder of ``file``: every relative path in ``config`` starts there,
    also one that stands in a base file. ``warnings`` are sentences for the person who runs it.
    """

    config: Config
    file: Path
    root: Path
    warnings: tuple[str, ...] = ()


def load(file: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read ``file`` in skillopt-ci's own form or in SkillOpt's.

    Later wins over earlier: bases, the file, ``overrides`` (``section.key=value``) in their order.
    Raises :class:`~skillopt_ci.errors.ConfigError` naming every problem at once, a line for each.
    """
    layers, above = list(read_layers(file)), [parse_override(text) for text in overrides]
    if is_skillopt(layers):
        found = translate(reduce(merge, map(structured, [*layers, *above])))
    else:
        found = Translation(reduce(merge, [*layers, *above]))
    config = validate(found.tree, found.problems)
    return Loaded(
        config,
        file=file,
        root=file.absolute().parent,
        warnings=tuple(w.with_place() for w in sorted(set(found.warnings), key=reading_order)),
    )

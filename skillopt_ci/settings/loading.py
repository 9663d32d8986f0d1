"""Load a configuration: the file, what it builds on, and the command line's overrides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from types import MappingProxyType

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.inheritance import read_layers
from skillopt_ci.settings.node import merge
from skillopt_ci.settings.overrides import parse_override
from skillopt_ci.settings.problem import reading_order
from skillopt_ci.settings.role_forms import with_long_roles
from skillopt_ci.settings.runs import choose_run, runs_of
from skillopt_ci.settings.skill_file import with_skill_file
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


def load(
    file: Path,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = MappingProxyType({}),
    run: str | None = None,
) -> Loaded:
    """Read ``file`` in skillopt-ci's own form or in SkillOpt's.

    Later wins over earlier: bases, the file, in a file of several runs the one called ``run``,
    ``overrides`` (``section.key=value``) in their order. Of ``environ`` SkillOpt's own variables
    count, and only for its form. Raises :class:`~skillopt_ci.errors.ConfigError` naming every
    problem at once, a line for each.
    """
    layers, above = list(read_layers(file)), [parse_override(text) for text in overrides]
    if is_skillopt(layers):
        translation = translate(reduce(merge, map(structured, [*layers, *above])), environ)
        found = replace(translation, tree=choose_run(translation.tree, run))
    else:
        chosen = choose_run(reduce(merge, map(with_long_roles, layers)), run)
        found = Translation(reduce(merge, map(with_long_roles, [chosen, *above])))
    config = with_skill_file(validate(found.tree, found.problems), file)
    return Loaded(
        config,
        file=file,
        root=file.absolute().parent,
        warnings=tuple(w.with_place() for w in sorted(set(found.warnings), key=reading_order)),
    )


def run_names(file: Path) -> tuple[str, ...]:
    """The names of the runs in ``file``, in its order.

    Raises :class:`~skillopt_ci.errors.ConfigError` if the file cannot be read.
    """
    layers = list(read_layers(file))
    if is_skillopt(layers):
        return (load(file).config.run,)
    return tuple(run.name for run in runs_of(reduce(merge, layers)) if run.name)

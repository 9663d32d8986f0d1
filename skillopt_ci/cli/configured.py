"""The configuration that the command line names."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from skillopt_ci.cli.context import Globals
from skillopt_ci.config.loading import Loaded, load
from skillopt_ci.errors import ConfigError


def load_configured(settings: Globals) -> Loaded:
    """Load the configuration of the run that ``settings`` name.

    Raises :class:`~skillopt_ci.errors.ConfigError` for one that is not there or cannot be used.
    """
    file = settings.cwd / settings.config
    if not file.exists():
        raise ConfigError("there is no such file", file=file, hint=_where_else(settings))
    return load(file, settings.overrides, settings.environ, settings.run)


def _where_else(settings: Globals) -> str:
    found = next(_nearby(settings.cwd.absolute(), settings.config.name), None)
    if found is not None:
        return f"There is one elsewhere: --config {os.path.relpath(found, settings.cwd)}"
    return "Write one with `skillopt-ci init`, or name yours with --config."


def _nearby(folder: Path, name: str) -> Iterator[Path]:
    """Files called ``name`` above ``folder``, up to the repository's top, and then just below."""
    for above in (folder, *folder.parents):
        if (above / name).is_file():
            yield above / name
        if (above / ".git").exists():
            break
    below = chain(folder.glob(f"*/{name}"), folder.glob(f"*/*/{name}"))
    yield from sorted(below)

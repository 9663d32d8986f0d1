"""The options that every command understands, before its name and after it."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TextIO, TypeVar

import click

from skillopt_ci import __version__
from skillopt_ci.confinement import whole_environment
from skillopt_ci.errors import ExitCode
from skillopt_ci.redaction import Redactor, named_secrets

if TYPE_CHECKING:
    from rich.console import Console

#: The configuration that no option names.
DEFAULT_CONFIG = Path("skillopt.yaml")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Globals:
    """What the command line and the process say to every command.

    ``config`` is as the user typed it, so that messages show it the same way. ``verbosity`` is
    negative for ``-q`` and counts every ``-v``. Nothing below the command line reads the
    environment or the working folder by itself: both come from here. ``redact`` is the process's
    one: whoever learns of a secret tells it.
    """

    environ: Mapping[str, str]
    cwd: Path
    config: Path = DEFAULT_CONFIG
    overrides: tuple[str, ...] = ()
    run: str | None = None
    json: bool = False
    verbosity: int = 0
    progress: bool = True
    redact: Redactor = field(default_factory=Redactor, repr=False)

    @property
    def people(self) -> TextIO:
        """Where people read: standard output, or standard error if JSON has the former."""
        return sys.stderr if self.json else sys.stdout

    @classmethod
    def of_process(cls) -> "Globals":
        """Return the globals of this process, with no option given."""
        environ = whole_environment()
        return cls(environ, Path.cwd(), redact=Redactor(named_secrets(environ)))


def global_options(function: Callable[Concatenate[Globals, P], R]) -> Callable[P, R]:
    """Add the global options to a command and hand it the :class:`Globals` first.

    Use it below ``@click.command()`` and the command's own options::

        @click.command()
        @click.option("--offline", is_flag=True)
        @global_options
        def command(settings: Globals, offline: bool) -> ExitCode | None: ...
    """
    return reduce(lambda f, option: option(f), reversed(_OPTIONS), click.pass_obj(function))


def _option(
    *names: str, update: Callable[[Globals, Any], Globals], **how: Any
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    def remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        del param
        if value:
            ctx.obj = update(ctx.obj, value)

    return click.option(*names, callback=remember, expose_value=False, **how)


_OPTIONS = (
    _option(
        "-c",
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Configuration of the run.  [default: skillopt.yaml]",
        update=lambda known, file: replace(known, config=file),
    ),
    _option(
        "-o",
        "--override",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one key, as in -o train.batch_size=8; may be repeated.",
        update=lambda known, given: replace(known, overrides=known.overrides + given),
    ),
    _option(
        "--run",
        metavar="NAME",
        help="Choose one of several runs.",
        update=lambda known, name: replace(known, run=name),
    ),
    _option(
        "--json",
        is_flag=True,
        help="Print the result as one JSON object on standard output.",
        update=lambda known, _: replace(known, json=True),
    ),
    _option(
        "-q",
        "--quiet",
        is_flag=True,
        help="Print only results, warnings and errors.",
        update=lambda known, _: replace(known, verbosity=known.verbosity - 1),
    ),
    _option(
        "-v",
        "--verbose",
        count=True,
        help="Print more; may be repeated.",
        update=lambda known, count: replace(known, verbosity=known.verbosity + count),
    ),
    _option(
        "--no-progress",
        is_flag=True,
        help="Show no progress.",
        update=lambda known, _: replace(known, progress=False),
    ),
    click.version_option(__version__, prog_name="skillopt-ci", message="%(prog)s %(version)s"),
)

#: A file that an option or argument names; relative ones start at ``Globals.cwd``.
FILE = click.Path(path_type=Path)


def print_json(value: object) -> None:
    """Print ``value`` as one JSON object on a line of standard output."""
    click.echo(json.dumps(value))


def nothing_to_do(text: str) -> ExitCode:
    """Say on standard error that, and why, there is nothing left to do."""
    click.echo(text, err=True)
    return ExitCode.NOTHING_TO_DO


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether ``stream`` is a terminal on which lines can be redrawn."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether to colour ``stream``: a capable terminal, and no ``NO_COLOR``."""
    return is_live(stream, environ) and not environ.get("NO_COLOR")


def build_console(stream: TextIO, environ: Mapping[str, str]) -> "Console":
    """Build the console for messages and progress on ``stream`` (standard error, as a rule)."""
    from rich.console import Console  # noqa: PLC0415 - only commands that draw pay for it

    live = is_live(stream, environ)
    return Console(
        file=stream,
        force_terminal=live,
        no_color=not wants_colour(stream, environ),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not live,
        _environ=environ,
    )

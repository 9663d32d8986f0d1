"""The options that every command understands, before its name and after it."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from skillopt_ci import __version__
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.redaction import Redactor
from skillopt_ci.sanitize import harmless

if TYPE_CHECKING:
    from rich.console import Console

#: The configuration that no option names.
DEFAULT_CONFIG = Path("skillopt.yaml")
_NARROWEST = 30
#: A file that an option or argument names; relative ones start at ``Globals.cwd``.
FILE = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class Globals:
    """What the command line and the process say to every command.

    ``config`` is as typed, for messages. ``verbosity`` is negative for ``-q``, else counts ``-v``.
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
    def config_file(self) -> Path:
        """The configuration that is named, else the nearest one up to the repository's top."""
        here = self.cwd / self.config
        if self.config == DEFAULT_CONFIG and not here.exists():
            for folder in (self.cwd, *self.cwd.parents):
                if (folder / self.config).is_file():
                    return folder / self.config
                if (folder / ".git").exists():
                    break
        return here

    @property
    def same_run(self) -> str:
        """The options that name this run again to another command, with a space before them."""
        words = [] if self.config == DEFAULT_CONFIG else ["-c", str(self.config)]
        words += [] if self.run is None else ["--run", self.run]
        return "".join(f" {shlex.quote(word)}" for word in words)

    @property
    def people(self) -> TextIO:
        """Where people read: standard output, or standard error if JSON has the former."""
        return sys.stderr if self.json else sys.stdout

    @property
    def colour(self) -> bool:
        return wants_colour(sys.stdout, self.environ)

    def tell(self, values: object, text: str) -> None:
        """Print a result: ``values`` as one JSON object on a line if asked for, else ``text``."""
        click.echo(json_line(values) if self.json else text)

    def say(self, text: str, *, err: bool = False) -> None:
        stream = sys.stderr if err else self.people
        click.echo(wrapped(text, stream), stream)


def command(
    name: str | None = None, cls: type[click.Command] = click.Command, **how: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function a command with global options, which it gets as :class:`Globals` first."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        made = click.command(name, cls, **how)(click.pass_obj(function))
        for option in made.params:
            if isinstance(option, click.Option):
                option.show_default = True
        made.params += _OPTIONS
        return click.version_option(__version__, message="skillopt-ci %(version)s")(made)

    return decorate


def _option(
    names: str, told: str, update: Callable[[Globals, Any], Globals], **how: Any
) -> click.Option:
    def remember(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value:
            ctx.obj = update(ctx.obj, value)

    return click.Option(names.split(), callback=remember, expose_value=False, help=told, **how)


_flag = partial(_option, is_flag=True)


_OPTIONS = (
    _option(
        "-c --config",
        "Configuration file.  [default: skillopt.yaml, here or above]",
        lambda known, file: replace(known, config=file),
        type=FILE,
        metavar="FILE",
    ),
    _option(
        "-o --override",
        "Override one key, as in -o train.batch_size=8; may be repeated.",
        lambda known, given: replace(known, overrides=known.overrides + given),
        multiple=True,
        metavar="KEY=VALUE",
    ),
    _option(
        "--run",
        "Name of the run, if there are several.",
        lambda known, name: replace(known, run=name),
        metavar="NAME",
    ),
    _flag(
        "--json",
        "Print the result as JSON on standard output.",
        lambda known, _: replace(known, json=True),
    ),
    _flag(
        "-q --quiet",
        "Print only results, warnings and errors.",
        lambda known, _: replace(known, verbosity=known.verbosity - 1),
    ),
    _option(
        "-v --verbose",
        "Print more; may be repeated.",
        lambda known, count: replace(known, verbosity=known.verbosity + count),
        count=True,
    ),
    _flag("--no-progress", "Show no progress.", lambda known, _: replace(known, progress=False)),
)


def print_text(text: str) -> None:
    """Print a file to a program to the last byte, and to a terminal nothing that it would obey."""
    encoding = sys.stdout.encoding or "utf-8"
    if text.encode(encoding, "replace").decode(encoding) != text:
        raise UsageError(
            f"Standard output is {encoding}, which cannot hold this text.",
            hint="Write it with --output FILE, or set PYTHONIOENCODING=utf-8.",
        )
    click.echo(harmless(text) if sys.stdout.isatty() else text, nl=False)


def print_json(value: object) -> None:
    click.echo(json_line(value))


def json_line(value: object) -> str:
    # GitHub's runner obeys `##[` anywhere in a line; in JSON it can only be part of a text
    return json.dumps(value).replace("##[", r"##\u005b")


def nothing_to_do(text: str, settings: Globals | None = None, **facts: object) -> NoReturn:
    """End the command, saying why; also in JSON, with ``facts``, if ``settings`` ask for it."""
    click.echo(wrapped(text, sys.stderr), err=True)
    if settings is not None and settings.json:
        error = {"type": "NothingToDo", "message": text, "hint": ""}
        print_json({**facts, "error": error, "exit_code": ExitCode.NOTHING_TO_DO})
    raise click.exceptions.Exit(ExitCode.NOTHING_TO_DO)


def wrapped(text: str, stream: TextIO, indent: int = 0) -> str:
    """``text``, its further lines indented; on a terminal broken between words, never inside."""
    lines = text.split("\n")
    if stream.isatty():
        width = max(shutil.get_terminal_size().columns - indent, _NARROWEST)
        # paths and addresses stay whole, to be copied
        wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        lines = [part for line in lines for part in wrapper.wrap(line) or [""]]
    return f"\n{'':<{indent}}".join(lines)


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether ``stream`` is a terminal on which lines can be redrawn."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return is_live(stream, environ) and not environ.get("NO_COLOR")


def build_console(stream: TextIO, environ: Mapping[str, str]) -> "Console":
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

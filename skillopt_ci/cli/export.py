"""``skillopt-ci export``: a run as the files of another program."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.evidence import gather
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.integrations.skillopt.export import skillopt_files
from skillopt_ci.report.text import plural


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["skillopt"]),
    default="skillopt",
    show_default=True,
    help="Whose files to write.",
)
@global_options
def command(settings: Globals, folder: Path, layout: str) -> ExitCode:
    """Write the run into the new folder DIR in SkillOpt's layout, read from git alone."""
    target = settings.cwd / folder
    refuse_occupied(target)
    evidence = gather(open_reader(settings))
    files = skillopt_files(evidence, str(folder))
    write_folder(target, files)
    told = {"run": evidence.state.run, "format": layout, "folder": str(folder), "files": len(files)}
    if settings.json:
        click.echo(json.dumps(told))
    elif settings.verbosity >= 0:
        click.echo(f"{plural(len(files), 'file')} of run {evidence.state.run} written to {folder}")
    return ExitCode.DONE


def refuse_occupied(target: Path) -> None:
    """Raise :class:`UsageError` unless ``target`` is absent or an empty folder."""
    occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if occupied:
        raise UsageError(
            f"{target} is there already: nothing was written.",
            hint="Name a new or an empty folder.",
        )


def write_folder(target: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` by their paths below ``target``: all of them or none.

    Raises :class:`UsageError` if that is not possible.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=target.parent, prefix=f".{target.name}.", ignore_cleanup_errors=True
        ) as place:
            made = Path(place) / "run"
            for name, text in files.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_text(text, encoding="utf-8", newline="")
            os.replace(made, target)  # noqa: PTH105 (an empty folder gives way to it)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error

"""``skillopt-ci best``: the best skill so far."""

import json
import sys
from pathlib import Path

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.reader import RunReader, open_reader
from skillopt_ci.errors import ExitCode, RepositoryError
from skillopt_ci.sanitize import harmless
from skillopt_ci.util import write_atomically


@click.command()
@click.option(
    "--output", "-O", type=click.Path(path_type=Path), metavar="FILE", help="Write it to FILE."
)
@global_options
def command(settings: Globals, output: Path | None) -> ExitCode:
    """Print the best skill measured so far, or write it to a file; read from git alone."""
    reader = open_reader(settings)
    text = reader.read(reader.folder.best_skill)
    if text is None:
        raise RepositoryError(f"{reader.folder.best_skill} is missing in {reader.commit[:10]}.")
    if output is not None:
        write_atomically(settings.cwd / output, text)
    if settings.json:
        click.echo(json.dumps({**_facts(reader), "text": text}))
    elif output is None:
        # a program gets the text to the last byte, a terminal nothing that it would obey
        click.echo(harmless(text) if sys.stdout.isatty() else text, nl=False)
    return ExitCode.DONE


def _facts(reader: RunReader) -> dict[str, object]:
    best = reader.state.best
    return {
        "run": reader.state.run,
        "step": best.step,
        "origin": best.origin,
        "score": best.measurement.score,
        "tasks": best.measurement.n,
        "sha256": best.sha256,
        "simulated": reader.state.simulated,
    }

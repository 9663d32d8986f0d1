"""``skillopt-ci report``: one HTML file that shows what a run has learned."""

import json
from pathlib import Path

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.page_evidence import page_evidence
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.html_page import build_page
from skillopt_ci.util import write_atomically


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("skillopt-report.html"),
    show_default=True,
    metavar="FILE",
    help="The file to write.",
)
@click.option("--serve", is_flag=True, help="Serve the report on this machine, always up to date.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8300,
    show_default=True,
    help="Port for --serve; 0 takes a free one.",
)
@global_options
def command(settings: Globals, output: Path, serve: bool, port: int) -> ExitCode:
    """Write one self-contained HTML file that shows what the run has learned, read from git alone.

    It needs no network and no server: curve, tasks, steps, the skill with where each rule came
    from, and a comparison of any two versions. With --serve it is a page on this machine that
    follows a run while it works, until it is interrupted.
    """
    if serve:
        from skillopt_ci.cli.report_server import serve_report  # noqa: PLC0415 - few need it

        return serve_report(settings, port)
    evidence = page_evidence(open_reader(settings), settings.redact)
    page = build_page(evidence)
    file = settings.cwd / output
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, page)
    size = len(page.encode())
    if settings.json:
        told = {"run": evidence.run.state.run, "file": str(output), "bytes": size}
        click.echo(json.dumps(told))
    elif settings.verbosity >= 0:
        click.echo(f"{output}: {size / 1000:,.0f} kB, open it in a browser")
    return ExitCode.DONE

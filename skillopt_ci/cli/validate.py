"""``skillopt-ci validate``: find out before anything is paid for."""

import asyncio
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from skillopt_ci.cli.console import wants_colour
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.examine import Finding, examine
from skillopt_ci.cli.probe import probe_models
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.text import plural
from skillopt_ci.sanitize import harmless

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_TEXT_STARTS = 26
_NARROWEST = 30


@click.command()
@click.option("--probe", is_flag=True, help="Also make one small call to each model role.")
@global_options
def command(settings: Globals, probe: bool) -> ExitCode:
    """Check configuration, tasks, scorers, skill and repository; call no model unless --probe.

    Ends with 2 if something has to be mended, and with 5 if only a server or a remote failed.
    """
    examined = examine(settings)
    findings = list(examined.findings)
    if probe and examined.loaded is not None:
        loaded = examined.loaded
        findings += asyncio.run(probe_models(loaded.config.model, settings.environ, loaded.root))
    if settings.json:
        rows = [{"part": f.part, "level": f.level, "text": f.text} for f in findings]
        valid = exit_code(findings) is ExitCode.DONE
        click.echo(json.dumps({"valid": valid, "findings": rows}))
    else:
        print_findings(findings, settings)
    return exit_code(findings)


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """What the command ends with: the user's own errors go before those of the world."""
    codes = {finding.exit_code for finding in findings}
    return min(codes - {ExitCode.DONE}, default=ExitCode.DONE)


def print_findings(findings: Sequence[Finding], settings: Globals) -> None:
    """Print a line for each finding, coloured by its level, and a conclusion."""
    colour, width = wants_colour(sys.stdout, settings.environ), _text_width()
    for finding in findings:
        if settings.verbosity >= 0 or finding.level != "ok":
            mark = f"{finding.level:<7}"
            mark = click.style(mark, fg=_COLOURS[finding.level]) if colour else mark
            text = _folded(harmless(finding.text), width)
            click.echo(f"{mark}  {finding.part:<15}  {text}")
    if settings.verbosity >= 0:
        click.echo(f"\n{_conclusion(findings)}")


def _text_width() -> int | None:
    """Columns for the texts on a terminal; None where lines may be as long as they are."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns - _TEXT_STARTS, _NARROWEST)


def _folded(text: str, width: int | None) -> str:
    lines = text.split("\n")
    if width is not None:
        # paths and addresses stay whole, to be copied
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        lines = [part for line in lines for part in wrapper.wrap(line) or [""]]
    return ("\n" + " " * _TEXT_STARTS).join(lines)


def _conclusion(findings: Sequence[Finding]) -> str:
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count("error"), levels.count("warning")
    if errors:
        return f"{plural(errors, 'error')}, {plural(warnings, 'warning')}."
    besides = f" ({plural(warnings, 'warning')})" if warnings else ""
    blocking = [finding.part for finding in findings if finding.blocks]
    if blocking:
        return f"Nothing else to mend{besides}, but no step can start: see {', '.join(blocking)}."
    return f"Ready to train{besides}: skillopt-ci step"

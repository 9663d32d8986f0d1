"""How a command that failed says so: one message, one hint, one exit code."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import click

from skillopt_ci.cli.console import wants_colour
from skillopt_ci.cli.crash import write_report
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.sanitize import harmless


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a command, in words; ``kind`` is the error's name for programs."""

    kind: str
    message: str
    hint: str
    exit_code: ExitCode


def describe(
    error: BaseException,
    words: list[str],
    environ: Mapping[str, str],
    redact: Redact = unchanged,
) -> Failure:
    """Put ``error`` into words; one that nobody foresaw leaves a crash report behind."""
    if isinstance(error, SkilloptError):
        said = redact(error.message), redact(error.hint)
        return Failure(type(error).__name__, *said, error.exit_code)
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Failure(
            "Interrupted",
            "interrupted",
            "What was done is saved; the same command goes on from there.",
            ExitCode.INTERRUPTED,
        )
    return Failure(
        "Defect",
        f"skillopt-ci itself failed ({type(error).__name__}): this is a defect",
        write_report(error, words, environ, redact=redact),
        ExitCode.DEFECT,
    )


def tell(failure: Failure, *, as_json: bool, environ: Mapping[str, str]) -> None:
    """Print ``failure`` on standard error, and as JSON on standard output if asked to.

    Raises BrokenPipeError when nobody reads standard output any more.
    """
    colour = wants_colour(sys.stderr, environ)
    # that there is nothing to do is no error, though it ends the command
    nothing = failure.exit_code is ExitCode.NOTHING_TO_DO
    label = click.style(
        "stopped:" if nothing else "error:", fg="yellow" if nothing else "red", bold=True
    )
    click.echo(f"{label} {harmless(failure.message)}", err=True, color=colour)
    if failure.hint:
        click.echo(click.style(harmless(failure.hint), dim=True), err=True, color=colour)
    if as_json:
        error = {"type": failure.kind, "message": failure.message, "hint": failure.hint}
        click.echo(json.dumps({"error": error, "exit_code": int(failure.exit_code)}))


def _usage(error: click.ClickException) -> Failure:
    ctx = getattr(error, "ctx", None)
    hint = f"See `{ctx.command_path} --help`." if ctx is not None else ""
    return Failure("UsageError", error.format_message(), hint, ExitCode.USAGE)

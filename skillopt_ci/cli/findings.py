"""What a check finds, and how a command prints all of it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import click

from skillopt_ci.cli.options import Globals, wants_colour, wrapped
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.sanitize import harmless
from skillopt_ci.text import plural

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_TEXT_STARTS = 26


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``exit_code`` is what an error of its kind ends a command with."""

    part: str
    level: Literal["ok", "warning", "error"]
    text: str
    exit_code: ExitCode = ExitCode.USAGE
    #: A warning that a check gets over and a training step does not: a key that is missing.
    blocks: bool = False
    #: What can be done if all is well, and the command for it, where this is not the next step.
    then: tuple[str, str] | None = None


def failed(part: str, error: SkilloptError) -> Finding:
    return Finding(part, "error", str(error), error.exit_code)


def up_to_error(part: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, and the error that ends them as one more."""
    try:
        yield from findings
    except SkilloptError as error:
        yield failed(part, error)


def print_findings(findings: Sequence[Finding], settings: Globals, *, files: bool = False) -> None:
    colour = wants_colour(sys.stdout, settings.environ)
    for finding in findings:
        if settings.verbosity >= 0 or finding.level != "ok":
            mark = click.style(f"{finding.level:<7}", fg=_COLOURS[finding.level])
            text = wrapped(harmless(finding.text), sys.stdout, _TEXT_STARTS)
            click.echo(f"{mark}  {finding.part:<15}  {text}", color=colour)
    if settings.verbosity < 0:
        return
    ready, then = "The files are in order", "."
    if not files:
        told = (finding.then for finding in findings if finding.then is not None)
        ready, command = next(told, ("Ready to train", "step"))
        then = f": skillopt-ci {command}{settings.same_run}"
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count("error"), plural(levels.count("warning"), "warning")
    besides = f" ({warnings})" if "warning" in levels else ""
    blocking = dict.fromkeys(finding.part for finding in findings if finding.blocks)
    said = f"{ready}{besides}{then}"
    if errors:
        said = f"{plural(errors, 'error')}, {warnings}."
    elif blocking:
        said = f"Nothing else to fix{besides}, but no step can start: see {', '.join(blocking)}."
    click.echo(f"\n{said}")

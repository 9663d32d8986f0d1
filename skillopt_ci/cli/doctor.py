"""``skillopt-ci doctor``: whether all that a run depends on is there and answers."""

import asyncio
import json
import platform
from collections.abc import Iterator

import click

from skillopt_ci import __version__
from skillopt_ci.cli.agent_check import agent_findings
from skillopt_ci.cli.checkup import Checkup, check_role
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.examine import Finding, examine
from skillopt_ci.cli.tools import git_finding, model_programs, workplace
from skillopt_ci.cli.validate import exit_code, print_findings
from skillopt_ci.config.loading import Loaded
from skillopt_ci.errors import ExitCode
from skillopt_ci.model.keys import resolved_key_values
from skillopt_ci.redaction import can_be_hidden


@click.command()
@click.option("--offline", is_flag=True, help="Ask no model; check everything else.")
@global_options
def command(settings: Globals, offline: bool) -> ExitCode:
    """Ask models, tools and prices whether they are ready, and say what to change.

    Each role is asked one small question of the optimizer's contract, a few hundred tokens. git is
    asked whether it may push, without pushing. What confines agents is tried out, and their
    programs are asked for their version. No secret is printed, only where it comes from.
    Ends with 2 if something has to be mended, and with 5 if only a server or a remote failed.
    """
    examined = examine(settings)
    findings = [*_tools(settings), *(one for one in examined.findings if not _of_a_role(one))]
    checkups: list[Checkup] = []
    if examined.loaded is not None:
        findings += workplace(examined.loaded, settings.environ)
        findings += agent_findings(examined.loaded, settings.environ)
        findings += model_programs(examined.loaded, settings.environ)
        findings += _secrets(examined.loaded, settings)
        checkups = [] if offline else asyncio.run(_check_roles(examined.loaded, settings))
        if offline:
            findings += [one for one in examined.findings if _of_a_role(one)]
    findings += [finding for one in checkups for finding in one.findings]
    if settings.json:
        click.echo(json.dumps(as_json(findings, checkups)))
    else:
        print_findings(findings, settings)
    return exit_code(findings)


def as_json(findings: list[Finding], checkups: list[Checkup]) -> dict[str, object]:
    """All that was found, as one object."""
    return {
        "ready": exit_code(findings) is ExitCode.DONE,
        "findings": [{"part": f.part, "level": f.level, "text": f.text} for f in findings],
        "roles": {
            one.role: {
                "provider": one.provider,
                "model": one.model,
                "address": one.address or None,
                "key": one.key,
                "answered": one.seconds is not None,
                "seconds": None if one.seconds is None else round(one.seconds, 3),
                "structured": one.structured,
                "usage_reported": one.usage_reported,
                "price": {"source": one.price.source, "text": one.price.text},
            }
            for one in checkups
        },
    }


async def _check_roles(loaded: Loaded, settings: Globals) -> list[Checkup]:
    """All roles, one after the other: they may be one small server."""
    models = loaded.config.model
    found = []
    for name in ("target", "optimizer", "judge"):
        config = getattr(models, name)
        if config is not None:
            found.append(
                await check_role(name, config, settings.environ, loaded.root, settings.redact)
            )
    return found


def _of_a_role(finding: Finding) -> bool:
    return finding.part.startswith("model.")


def _tools(settings: Globals) -> Iterator[Finding]:
    python = f"Python {platform.python_version()} on {platform.platform(terse=True)}"
    yield Finding("program", "ok", f"skillopt-ci {__version__}, {python}")
    yield git_finding(settings.cwd)


def _secrets(loaded: Loaded, settings: Globals) -> Iterator[Finding]:
    """What cannot be kept out of outputs by its value."""
    for value in resolved_key_values(loaded.config.model, settings.environ, loaded.root):
        if not can_be_hidden(value):
            yield Finding(
                "secrets",
                "warning",
                "a key is so short or plain that it cannot be hidden where it turns up in a text; "
                "use a longer one",
            )
            return
    yield Finding("secrets", "ok", "keys are hidden by value in all that is written")

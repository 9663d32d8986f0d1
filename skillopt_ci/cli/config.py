"""``skillopt-ci config``: the configuration as it is understood."""

import json

import click
import yaml

from skillopt_ci.cli.configured import load_configured
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.config.reference import json_schema
from skillopt_ci.errors import ExitCode


@click.group(invoke_without_command=True)
@global_options
@click.pass_context
def command(ctx: click.Context, settings: Globals) -> ExitCode | None:
    """Print the effective configuration, with inheritance, overrides and defaults worked in."""
    if ctx.invoked_subcommand is not None:
        return None
    loaded = load_configured(settings)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    values = loaded.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    if settings.json:
        click.echo(json.dumps(values))
    else:
        click.echo(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), nl=False)
    return ExitCode.DONE


@command.command()
@global_options
def schema(settings: Globals) -> ExitCode:
    """Print the JSON Schema that editors use to complete and check a configuration."""
    del settings
    click.echo(json.dumps(json_schema(), indent=2))
    return ExitCode.DONE

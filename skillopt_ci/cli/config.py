"""``skillopt-ci config`` and ``simulate``: the configuration in force; a server of models."""

import json

import click
import yaml

from skillopt_ci.cli.build import load_configured
from skillopt_ci.cli.options import Globals, command
from skillopt_ci.config.reference import json_schema
from skillopt_ci.demo.server import Behaviour, serve
from skillopt_ci.errors import UsageError


@command(cls=click.Group, invoke_without_command=True)
@click.pass_context
def config_command(ctx: click.Context, settings: Globals) -> None:
    """Print the effective configuration, with inheritance, overrides and defaults worked in."""
    if ctx.invoked_subcommand is not None:
        return
    loaded = load_configured(settings)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    values = loaded.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    settings.tell(values, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip("\n"))


@command("schema")
def schema_command(settings: Globals) -> None:
    """Print the JSON Schema that editors use to complete and check a configuration."""
    del settings
    click.echo(json.dumps(json_schema(), indent=2))


config_command.add_command(schema_command)


@command()
@click.option("--host", default="127.0.0.1")
@click.option("--port", default=8091, type=click.IntRange(0, 65_535), help="0 takes a free one.")
@click.option("--seed", default=0)
@click.option(
    "--fault-rate",
    default=0.0,
    type=click.FloatRange(0, 1),
    help="Share of requests that fail: 429, 500, cut connections, truncated JSON.",
)
@click.option("--latency", default=0.0, type=click.FloatRange(0), help="Seconds per answer.")
def simulate_command(
    settings: Globals, host: str, port: int, seed: int, fault_rate: float, latency: float
) -> None:
    """Serve the simulated models over HTTP, to try configurations without paying.

    Prints the base URL on the first line of standard output and serves until interrupted.
    """
    del settings
    try:
        serve(host, port, Behaviour(seed, fault_rate, latency))
    except OSError as error:
        raise UsageError(
            f"Cannot serve on {host}:{port}: {error.strerror}.",
            hint="Choose another --port; 0 takes a free one.",
        ) from error

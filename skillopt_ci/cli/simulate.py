"""``skillopt-ci simulate``: the simulated models behind an OpenAI-compatible API."""

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.demo.models import Behaviour, serve
from skillopt_ci.errors import ExitCode, UsageError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port",
    default=8091,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="0 takes a free one.",
)
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--fault-rate",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Share of requests that fail: 429, 500, cut connections, truncated JSON.",
)
@click.option(
    "--latency",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds per answer.",
)
@global_options
def command(
    settings: Globals, host: str, port: int, seed: int, fault_rate: float, latency: float
) -> ExitCode:
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
    return ExitCode.DONE

"""``skillopt-ci comment``: what the pull request says about the run."""

import json

import click

from skillopt_ci.action.publish import Published, links_of, publish_run, report, showing
from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.read import open_reader, view
from skillopt_ci.errors import ExitCode
from skillopt_ci.github.client import from_environ
from skillopt_ci.github.github import GitHubForge
from skillopt_ci.sanitize import harmless


@click.command()
@click.option(
    "--publish",
    is_flag=True,
    help="Bring pull request, comment and check on GitHub up to date; takes GITHUB_TOKEN and "
    "GITHUB_REPOSITORY.",
)
@global_options
def command(settings: Globals, publish: bool) -> ExitCode:
    """Print the comment that shows the run, read from git alone.

    With --publish it is posted, with all that belongs to it. That can be repeated at any time:
    what stands there already is not written again.
    """

    links = links_of(settings.environ)
    if publish:
        forge = GitHubForge.open(from_environ(settings.environ), redact=settings.redact)
        _tell(publish_run(settings, forge, links=links), settings)
        return ExitCode.DONE
    reader = open_reader(settings)
    text = report(view(reader), showing(settings, reader, links))
    click.echo(json.dumps({"comment": text}) if settings.json else harmless(text))
    return ExitCode.DONE


def _tell(published: Published, settings: Globals) -> None:
    for note in published.notes:
        click.echo(f"warning: {harmless(note)}", err=True)
    number = published.pull_request
    if settings.json:
        click.echo(json.dumps({"pull_request": number, "notes": published.notes}))
    else:
        click.echo("no pull request" if number is None else f"pull request #{number}")

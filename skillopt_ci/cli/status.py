"""``skillopt-ci status``: where training stands."""

import json
import sys

import click

from skillopt_ci.cli.configured import load_configured
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.reader import RunReader, open_reader
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.ledger.reading import candidate
from skillopt_ci.report.status import in_flight, status_json, status_rows
from skillopt_ci.settings.config import GeneratedTasks
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.training.plan import total_steps


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Say where training stands, read from git alone."""
    reader = open_reader(settings)
    waiting = candidate(reader.ledger)
    flight = None if waiting is None else in_flight(waiting.sha, waiting.trailers)
    total = _total(settings, reader)
    facts = (reader.state, reader.history, reader.commit, flight, total)
    if settings.json:
        click.echo(json.dumps(status_json(*facts)))
        return ExitCode.DONE
    note = " (simulated models)" if reader.state.simulated else ""
    rows = status_rows(*facts)
    print_rows(f"Run {reader.state.run}{note}", rows, sys.stdout, settings.environ)
    return ExitCode.DONE


def _total(settings: Globals, reader: RunReader) -> int | None:
    """How many steps the run has by configuration and tasks, where both are here."""
    try:
        loaded = load_configured(settings)
        if loaded.config.run != reader.state.run:
            return None
        tasks, train = loaded.config.tasks, loaded.config.train
        if tasks is None:  # an environment would have to be opened
            return None
        if isinstance(tasks, GeneratedTasks):  # no code of the repository runs for a look
            return total_steps(train.train_size, train)
        return total_steps(len(load_splits(tasks, loaded.root, train).train), train)
    except SkilloptError:
        return None  # the run is read from git alone; the total is an extra

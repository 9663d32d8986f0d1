"""``skillopt-ci status``: where training stands, and what comes next."""

import json
import sys

import click

from skillopt_ci.cli.configured import load_configured
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.next_work import NextWork, in_flight, next_json, next_rows
from skillopt_ci.cli.reader import RunReader, open_reader
from skillopt_ci.cli.table import print_rows
from skillopt_ci.config.config import GeneratedTasks
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.git.sync import is_held
from skillopt_ci.ledger.inspect import candidate
from skillopt_ci.report.terminal import status_json, status_rows
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.training.trainer import Upcoming, upcoming


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Say where training stands, read from git alone."""
    reader = open_reader(settings)
    work = _next_work(settings, reader)
    facts = (reader.state, reader.history, reader.commit)
    if settings.json:
        click.echo(json.dumps(status_json(*facts, next_json(work))))
        return ExitCode.DONE
    note = " (simulated models)" if reader.state.simulated else ""
    rows = status_rows(*facts, next_rows(work))
    print_rows(f"Run {reader.state.run}{note}", rows, sys.stdout, settings.environ)
    return ExitCode.DONE


def _next_work(settings: Globals, reader: RunReader) -> NextWork:
    waiting = candidate(reader.ledger)
    skill = reader.read(reader.skill_path)
    return NextWork(
        flight=None if waiting is None else in_flight(waiting.sha, waiting.trailers),
        upcoming=_upcoming(settings, reader),
        at_work=is_held(reader.ledger.common_dir, reader.state.run),
        edited=skill is not None and sha256(skill) != reader.state.current.sha256,
    )


def _upcoming(settings: Globals, reader: RunReader) -> Upcoming | None:
    """What comes next by configuration and tasks, where both are here."""
    try:
        loaded = load_configured(settings)
        tasks, train = loaded.config.tasks, loaded.config.train
        # an environment would have to be opened
        if loaded.config.run != reader.state.run or tasks is None:
            return None
        # no code of the repository runs for a look
        generated = isinstance(tasks, GeneratedTasks)
        newest_event = reader.history[-1] if reader.history else None
        size = train.train_size if generated else len(load_splits(tasks, loaded.root, train).train)
        return upcoming(loaded.config, size, reader.state, newest_event)
    except SkilloptError:
        return None  # the run is read from git alone; what comes next is an extra

"""The option that hands reviewers' notes to training."""

from dataclasses import replace
from pathlib import Path

import click

from skillopt_ci.cli.context import Globals
from skillopt_ci.training.review_comments import read_notes
from skillopt_ci.training.run_context import Session

notes_option = click.option(
    "--notes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Reviewers' notes, as JSON; each is given to one step.",
)


def with_notes(session: Session, file: Path | None, settings: Globals) -> Session:
    """The session with the notes of ``file``; raises UsageError if they cannot be read."""
    return session if file is None else replace(session, notes=read_notes(settings.cwd / file))

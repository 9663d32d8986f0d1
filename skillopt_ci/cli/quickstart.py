"""``skillopt-ci quickstart``: a whole training run on the bundled example."""

import asyncio
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.boundary_outcome import tell_outcome
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.eval import print_evaluation
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.skill_source import find_skill
from skillopt_ci.demo.quickstart import write_example
from skillopt_ci.errors import ExitCode
from skillopt_ci.git.process import Git
from skillopt_ci.ledger.inspect import newest
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.training.offline_eval import Evaluation, evaluate
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.trainer import train

#: The example is the same on every machine: nobody's name, signature or hooks are in it.
_SETTINGS = (
    ("user.name", "Quickstart"),
    ("user.email", "quickstart@localhost"),
    ("commit.gpgSign", "false"),
    ("core.hooksPath", "/dev/null"),
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@global_options
def command(settings: Globals, folder: Path | None) -> ExitCode:
    """Train the bundled example skill in a new repository: offline, free, in a minute.

    The repository is made in FOLDER, or in a new folder for temporary files.
    """
    target = _new_folder() if folder is None else (settings.cwd / folder).resolve()
    make_repository(target)
    inside = replace(settings, config=target / "skillopt.yaml")
    with build_observer(inside) as observer:
        session = open_session(inside, observer)
        with session.ledger.lock():
            asyncio.run(train(session, lambda outcome: tell_outcome(outcome, inside)))
        named = [find_skill(session, word, target) for word in ("initial", "best")]
        result = asyncio.run(evaluate(session, named, "test"))
    click.echo(err=True)
    _print_result(session, result, inside, target)
    return ExitCode.DONE


def make_repository(target: Path) -> None:
    """Write the example into ``target`` and commit it, whatever git knows of the user."""
    write_example(target)
    git = Git(target)
    git.run("init", "--quiet", "--initial-branch=main")
    for key, value in _SETTINGS:
        git.run("config", key, value)
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message", "Write down how ledger lines look")


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="skillopt-quickstart-")).resolve()


def _print_result(session: Session, result: Evaluation, settings: Globals, target: Path) -> None:
    stream = sys.stderr if settings.json else sys.stdout
    _print_heading("The training log is the skills branch", stream)
    for commit in session.ledger.log(newest(session.ledger), first_parent=True):
        click.echo(f"{commit.sha[:7]} {harmless_line(commit.subject)}", file=stream)
    click.echo(file=stream)
    _print_heading("Before and after, on tasks that training never saw", stream)
    print_evaluation(result, settings, stream)
    click.echo(file=stream)
    _print_heading("Where to look next", stream)
    for line in _next_steps(session, settings.environ, target):
        click.echo(f"  {line}", file=stream)


def _next_steps(session: Session, environ: Mapping[str, str], target: Path) -> Iterator[str]:
    yield f"cd {shlex.quote(str(target))}"
    if shutil.which("skillopt-ci", path=environ.get("PATH")) is None:
        yield f'export PATH="{Path(sys.executable).parent}:$PATH"'
    branch = f"skillopt/{session.config.run}"
    for command_line, what in (
        (f"git log --first-parent {branch}", "each step's evidence"),
        (f"git diff main {branch} skills", "what was learned"),
        ("skillopt-ci log", "the training log as a table"),
        ("skillopt-ci show 2", "one step: edits, flips, scores"),
        ("skillopt-ci init", "in a repository of your own"),
    ):
        yield f"{command_line:<43} # {what}"


def _print_heading(text: str, stream: TextIO) -> None:
    click.echo(f"{text}\n{'─' * len(text)}", file=stream)

"""``skillopt-ci quickstart``: a whole training run on the bundled example."""

import asyncio
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.eval import print_evaluation
from skillopt_ci.cli.harmless import harmless_line
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.outcome import print_outcome
from skillopt_ci.cli.skill_source import find_skill
from skillopt_ci.errors import ExitCode
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.reading import newest
from skillopt_ci.quickstart import write_example
from skillopt_ci.training.evaluate import evaluate
from skillopt_ci.training.run import train
from skillopt_ci.training.session import Session


@click.command()
@click.argument(
    "folder", type=click.Path(path_type=Path), default=Path("skillopt-quickstart"), required=False
)
@global_options
def command(settings: Globals, folder: Path) -> ExitCode:
    """Train the bundled example skill in a new repository FOLDER: offline, free, in a minute."""
    target = (settings.cwd / folder).resolve()
    make_repository(target)
    inside = replace(settings, config=target / "skillopt.yaml")
    with build_observer(inside) as observer:
        session = open_session(inside, observer)
        with session.ledger.lock():
            asyncio.run(train(session, lambda outcome: print_outcome(outcome, inside)))
        named = [find_skill(session, word, target) for word in ("initial", "best")]
        result = asyncio.run(evaluate(session, named, "test"))
    _heading("The training log is the skills branch")
    _print_log(session)
    _heading("Before and after, on tasks that training never saw")
    print_evaluation(result, inside, sys.stdout)
    _heading("Where to look next")
    _print_next_steps(session, target)
    return ExitCode.DONE


def make_repository(target: Path) -> None:
    """Write the example into ``target`` and commit it, whatever git knows of the user."""
    write_example(target)
    git = Git(
        target,
        {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "Quickstart"), ("EMAIL", "quickstart@localhost"))
        },
    )
    git.run("init", "--quiet", "--initial-branch=main")
    git.run("add", "--all")
    git.run("commit", "--quiet", "--no-verify", "--message", "Write down how ledger lines look")


def _print_log(session: Session) -> None:
    for commit in session.ledger.log(newest(session.ledger), first_parent=True):
        click.echo(f"{commit.sha[:8]} {harmless_line(commit.subject)}")


def _print_next_steps(session: Session, target: Path) -> None:
    place = shlex.quote(str(target))
    branch = f"skillopt/{session.config.run}"
    for command_line, what in (
        (f"cd {place}", ""),
        (f"git log --first-parent {branch}", "each step's evidence in words"),
        (f"git diff main {branch} -- {session.skill_path}", "what was learned"),
        ("skillopt-ci log", "the same as a table"),
        ("skillopt-ci show 2", "one step with its edits, flips and arithmetic"),
        ("skillopt-ci init", "in a repository of your own: start there"),
    ):
        click.echo(f"  {command_line:<58} {what}".rstrip())


def _heading(text: str) -> None:
    click.echo(f"\n{text}\n{'─' * len(text)}")

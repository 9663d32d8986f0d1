"""``skillopt-ci step``: one training step."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from skillopt_ci.cli.build import notes_option, open_session, with_notes
from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.commits import summary_rows
from skillopt_ci.report.terminal import (
    boundary_rows,
    boundary_rows_in_full,
    boundary_title,
    step_rows,
    step_rows_in_full,
)
from skillopt_ci.report.words import arrow, boundary_verdict
from skillopt_ci.text import plural
from skillopt_ci.training.epoch_end import BoundaryOutcome
from skillopt_ci.training.final_evaluation import FinishOutcome, finish
from skillopt_ci.training.resume import BoundaryFlight, Flight
from skillopt_ci.training.run_context import Session, equipped
from skillopt_ci.training.shard import take_over
from skillopt_ci.training.step import StepOutcome
from skillopt_ci.training.trainer import (
    Outcome,
    cross_boundary,
    patiently,
    train,
    train_once,
    train_until_candidate,
)

# Tell what a step did: a table for people, one JSON object for programs.


def print_outcome(outcome: StepOutcome, settings: Globals) -> None:
    """Print the step's JSON object on stdout if asked for, and its table where people look.

    ``-q`` leaves one line of the table, ``-v`` adds all that `show` tells.
    """
    if settings.json:
        click.echo(json.dumps(outcome_json(outcome)))
    if settings.verbosity >= 0:
        _print_table(outcome, settings, sys.stderr if settings.json else sys.stdout)
    elif not settings.json:
        click.echo(summary(outcome))


def outcome_json(outcome: StepOutcome) -> dict[str, object]:
    """The step as one flat object; keys are never removed or renamed within a major version."""
    record, decision, usage = outcome.record, outcome.decision, outcome.record.usage.usage()
    return {
        "kind": "step",
        "step": record.step,
        "epoch": record.epoch,
        "action": decision.action,
        "score_before": decision.score_before,
        "score_after": decision.score_after,
        "commit": outcome.commit,
        "tasks": decision.compared,
        "edits": record.proposal.change_count,
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }


def summary(outcome: StepOutcome) -> str:
    """The step in one line."""
    decision = outcome.decision
    return f"{_title(outcome)}: {decision.verdict}, {arrow(decision)}"


def _title(outcome: StepOutcome) -> str:
    record = outcome.record
    note = " (simulated models)" if record.simulated else ""
    return f"Step {record.step} of {outcome.total}, epoch {record.epoch}{note}"


def _print_table(outcome: StepOutcome, settings: Globals, stream: TextIO) -> None:
    record = outcome.record
    rows = (
        step_rows_in_full(record)
        if settings.verbosity > 0
        else step_rows(record, outcome.decision, outcome.state, outcome.seconds)
    )
    click.echo(err=True)
    print_rows(_title(outcome), rows, stream, settings.environ)
    click.echo(file=stream)


# Tell what an epoch's end did: a table for people, one JSON object for programs.


def tell_outcome(outcome: Outcome, settings: Globals) -> None:
    """Print a step or an epoch's end."""
    if isinstance(outcome, BoundaryOutcome):
        print_boundary(outcome, settings)
    else:
        print_outcome(outcome, settings)


def print_boundary(outcome: BoundaryOutcome, settings: Globals) -> None:
    """Print the JSON object on stdout if asked for, and the table where people look.

    ``-q`` leaves one line of the table, ``-v`` adds all that `show --epoch` tells.
    """
    record = outcome.record
    if settings.json:
        click.echo(json.dumps(boundary_json(outcome)))
    if settings.verbosity < 0:
        if not settings.json:
            verdict, gist = boundary_verdict(record), record.gist
            click.echo(f"{boundary_title(record)}: {verdict}, {gist}")
        return
    stream = sys.stderr if settings.json else sys.stdout
    rows = boundary_rows(record, outcome.seconds)
    if settings.verbosity > 0:
        rows = boundary_rows_in_full(record)
    click.echo(err=True)
    print_rows(boundary_title(record), rows, stream, settings.environ)
    click.echo(file=stream)


def boundary_json(outcome: BoundaryOutcome) -> dict[str, object]:
    """The epoch's end as one flat object; keys are never removed or renamed in a major version."""
    record, usage = outcome.record, outcome.record.usage.usage()
    decision, slow, meta = record.decision, record.slow_update, record.meta_skill
    current = outcome.state.current.measurement.score
    return {
        "kind": "slow_update",
        "epoch": record.epoch,
        "step": record.step,
        "action": record.action,
        "score_before": current if decision is None else decision.score_before,
        "score_after": None if decision is None else decision.score_after,
        "commit": outcome.commit,
        "tasks": 0 if decision is None else decision.compared,
        "pairs": len(record.pairs),
        "guidance": None if slow is None else slow.action,
        "meta_skill": None if meta is None else meta.action,
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }


@click.command()
@click.option(
    "--rollouts",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Answers from `rollout` to begin with; may be repeated.",
)
@click.option(
    "--until-candidate",
    is_flag=True,
    help="Stop when there is a candidate: the next `plan` shares its measurement out.",
)
@notes_option
@global_options
def step_command(
    settings: Globals, rollouts: tuple[Path, ...], until_candidate: bool, notes: Path | None
) -> ExitCode:
    """Do one training step, or go on with the one in flight.

    The end of an epoch is done before the next epoch's first step (see `slow-update`). Ends with 0
    when anything is recorded, merged and reverted alike, and with 3 when nothing is left.
    """
    with build_observer(settings) as observer:
        session = with_notes(open_session(settings, observer), notes, settings)
        with session.ledger.lock():
            if rollouts:
                take_over(session, [settings.cwd / file for file in rollouts])
            work = _until_candidate if until_candidate else _whole
            done = asyncio.run(work(session, settings))
    if not done:
        click.echo("Nothing left to do: all epochs are trained.", err=True)
        return ExitCode.NOTHING_TO_DO
    return ExitCode.DONE


async def _whole(session: Session, settings: Globals) -> bool:
    return bool(await train_once(session, lambda one: tell_outcome(one, settings)))


async def _until_candidate(session: Session, settings: Globals) -> bool:
    outcomes = list[Outcome]()

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell_outcome(outcome, settings)

    found = await train_until_candidate(session, tell)
    if isinstance(found, Flight | BoundaryFlight):
        _tell_candidate(found, settings)
    return found is not None or bool(outcomes)


def _tell_candidate(flight: Flight | BoundaryFlight, settings: Globals) -> None:
    record, candidate = flight.record, flight.commit or ""
    if settings.json:
        facts = {"kind": "candidate", "step": record.step, "candidate": candidate}
        click.echo(json.dumps({**facts, "cost_usd": record.usage.cost_usd}))
    else:
        click.echo(f"Step {record.step}: the candidate {candidate[:10]} waits to be measured.")


# ``skillopt-ci finish``: the end of a run.


@click.command()
@global_options
def finish_command(settings: Globals) -> ExitCode:
    """Validate the last skill, test the initial, best and last one, and sum the run up.

    One commit records it. Ends with 3 when nothing changed since the run was finished.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        with session.ledger.lock():
            started = session.clock()
            outcome = asyncio.run(patiently(session, lambda: finish(session, started)))
    if outcome is None:
        click.echo("Nothing left to do: the run is finished.", err=True)
        return ExitCode.NOTHING_TO_DO
    if settings.json:
        click.echo(json.dumps(summary_json(outcome)))
    print_finish(outcome, settings)
    return ExitCode.DONE


def summary_json(outcome: FinishOutcome) -> dict[str, object]:
    """The end of the run as one object: the summary, its commit, and the time of the whole run."""
    summary = outcome.summary.model_dump(mode="json")
    return {**summary, "commit": outcome.commit, "seconds": round(outcome.seconds, 3)}


def print_finish(outcome: FinishOutcome, settings: Globals) -> None:
    """Print the run's summary as a table, beside the JSON if that was asked for."""
    if settings.verbosity < 0:
        return
    summary = outcome.summary
    note = " (simulated models)" if summary.simulated else ""
    rows = summary_rows(summary, outcome.seconds)
    stream = sys.stderr if settings.json else sys.stdout
    print_rows(f"Run {summary.run}{note}", rows, stream, settings.environ)


# ``skillopt-ci run``: the steps that are left.


@click.command()
@notes_option
@global_options
def run_command(settings: Globals, notes: Path | None) -> ExitCode:
    """Do the training steps that are left, until the epochs, a budget or a signal ends it.

    After the last one the run is finished, as by `finish`, unless evaluation.eval_test is false.
    Whatever ends it, the next run goes on from there. Ends with 3 when there was nothing to do.
    """
    with build_observer(settings) as observer:
        session = with_notes(open_session(settings, observer), notes, settings)
        with session.ledger.lock():
            outcomes, finished = asyncio.run(_train(session, settings))
    if finished is not None:
        print_finish(finished, settings)
    elif not outcomes:
        click.echo("Nothing left to do: all epochs are trained.", err=True)
        return ExitCode.NOTHING_TO_DO
    if settings.verbosity >= 0:
        click.echo(f"All epochs are trained: {_counted(outcomes)} in this run.", err=True)
    return ExitCode.DONE


async def _train(session: Session, settings: Globals) -> tuple[list[Outcome], FinishOutcome | None]:
    started, outcomes = session.clock(), list[Outcome]()

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell_outcome(outcome, settings)

    async with equipped(session) as ready:
        await train(ready, tell)
        if not session.config.evaluation.eval_test:
            return outcomes, None
        return outcomes, await patiently(ready, lambda: finish(ready, started))


def _counted(outcomes: Sequence[Outcome]) -> str:
    """``3 steps and 1 end of an epoch``."""
    ends = sum(isinstance(outcome, BoundaryOutcome) for outcome in outcomes)
    steps = plural(len(outcomes) - ends, "step")
    if not ends:
        return steps
    return f"{steps} and {ends} {'end of an epoch' if ends == 1 else 'ends of epochs'}"


# ``skillopt-ci slow-update``: the end of an epoch, if one is due.


@click.command("slow-update")
@global_options
def slow_update_command(settings: Globals) -> ExitCode:
    """Do the end of an epoch if it is due: new guidance in the skill, notes for the optimizer.

    A scheduler can call it blindly: it ends with 0 when an epoch's end is recorded, merged and
    reverted alike, and with 3 when none is due. `step` and `run` do the same by themselves unless
    `schedule.slow_update` is `scheduled`.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        with session.ledger.lock():
            outcome = asyncio.run(cross_boundary(session, session.clock()))
    if outcome is None:
        click.echo("Nothing to do: no epoch's end is due.", err=True)
        return ExitCode.NOTHING_TO_DO
    print_boundary(outcome, settings)
    return ExitCode.DONE

"""``skillopt-ci step``: one training step."""

import asyncio
import json
from pathlib import Path

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.boundary_outcome import tell_outcome
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.notes import notes_option, with_notes
from skillopt_ci.errors import ExitCode
from skillopt_ci.training.resume import BoundaryFlight, Flight
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.shard import take_over
from skillopt_ci.training.trainer import Outcome, train_once, train_until_candidate


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
def command(
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

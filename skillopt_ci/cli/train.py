"""``skillopt-ci step``, ``run``, ``finish`` and ``slow-update``: training itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from skillopt_ci.cli.build import opened
from skillopt_ci.cli.options import FILE, Globals, global_options, nothing_to_do, print_json
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
from skillopt_ci.training.final_evaluation import FinishOutcome, finish
from skillopt_ci.training.prefetcher import prefetching
from skillopt_ci.training.resume import Candidate
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.shard import take_over
from skillopt_ci.training.trainer import (
    BoundaryOutcome,
    Outcome,
    StepOutcome,
    advance,
    advance_to_candidate,
    patiently,
    train,
)

_ALL_TRAINED = "Nothing left to do: all epochs are trained."
_notes_option = click.option(
    "--notes",
    type=FILE,
    metavar="FILE",
    help="Review comments, as JSON; each goes to one step.",
)


@click.command()
@click.option(
    "--rollouts",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Answers from `rollout` to begin with; may be repeated.",
)
@click.option(
    "--until-candidate",
    is_flag=True,
    help="Stop at the candidate, so that the next `plan` can shard its evaluation.",
)
@_notes_option
@global_options
def step_command(
    settings: Globals, rollouts: tuple[Path, ...], until_candidate: bool, notes: Path | None
) -> ExitCode:
    """Do one training step, or resume the one in flight.

    The end of an epoch comes before the next epoch's first step (see `slow-update`). Ends with 0
    when anything is recorded, merged and reverted alike, and with 3 when nothing is left.
    """
    outcomes = list[Outcome]()
    tell = _teller(outcomes, settings)
    with opened(settings, notes=notes, locked=True) as run:
        if rollouts:
            take_over(run, [settings.cwd / file for file in rollouts])
        found = asyncio.run(_step(run, tell, until_candidate=until_candidate))
    if isinstance(found, Candidate):
        record, candidate = found.record, found.commit or ""
        if settings.json:
            facts = {"kind": "candidate", "step": record.step, "candidate": candidate}
            print_json({**facts, "cost_usd": record.usage.cost_usd})
        else:
            click.echo(f"Step {record.step}: the candidate {candidate[:10]} waits to be measured.")
    elif not outcomes:
        return nothing_to_do(_ALL_TRAINED)
    return ExitCode.DONE


async def _step(
    run: Run, tell: Callable[[Outcome], None], *, until_candidate: bool
) -> Candidate | None:
    if not until_candidate:
        async for outcome in train(run, steps=1, patience=0):
            tell(outcome)
        return None
    while (found := await advance_to_candidate(run)) is not None:
        if isinstance(found, Candidate):
            return found
        tell(found)
        if isinstance(found, StepOutcome):
            break
    return None


@click.command()
@_notes_option
@global_options
def run_command(settings: Globals, notes: Path | None) -> ExitCode:
    """Do the remaining training steps, until the epochs, a budget or a signal end it.

    The last step is followed by `finish`, unless evaluation.eval_test is false. However it ends,
    the next run resumes from there. Ends with 3 when there was nothing to do.
    """
    outcomes = list[Outcome]()
    with opened(settings, notes=notes, locked=True) as run:
        finished = asyncio.run(_train(run, _teller(outcomes, settings)))
    if finished is not None:
        print_finish(finished, settings)
    elif not outcomes:
        return nothing_to_do(_ALL_TRAINED)
    if settings.verbosity >= 0:
        ends = sum(isinstance(outcome, BoundaryOutcome) for outcome in outcomes)
        done = plural(len(outcomes) - ends, "step")
        if ends:
            done += f" and {ends} {'end of an epoch' if ends == 1 else 'ends of epochs'}"
        click.echo(f"All epochs are trained: {done} in this run.", err=True)
    return ExitCode.DONE


async def _train(run: Run, tell: Callable[[Outcome], None]) -> FinishOutcome | None:
    async with prefetching(run) as ready:
        async for outcome in train(ready):
            tell(outcome)
        if not run.config.evaluation.eval_test:
            return None
        return await patiently(ready, lambda: finish(ready))


@click.command()
@global_options
def finish_command(settings: Globals) -> ExitCode:
    """Evaluate the last skill, test the initial, best and last one, and summarize the run.

    One commit records it. Ends with 3 when nothing changed since the run was finished.
    """
    with opened(settings, locked=True) as run:
        outcome = asyncio.run(patiently(run, lambda: finish(run)))
    if outcome is None:
        return nothing_to_do("Nothing left to do: the run is finished.")
    if settings.json:
        summary = outcome.summary.model_dump(mode="json")
        print_json({**summary, "commit": outcome.commit, "seconds": round(outcome.seconds, 3)})
    print_finish(outcome, settings)
    return ExitCode.DONE


def print_finish(outcome: FinishOutcome, settings: Globals) -> None:
    """Print the run's summary as a table, beside the JSON if that was asked for."""
    if settings.verbosity >= 0:
        note = " (simulated models)" if outcome.summary.simulated else ""
        rows = summary_rows(outcome.summary, outcome.seconds)
        print_rows(settings, f"Run {outcome.summary.run}{note}", rows)


@click.command("slow-update")
@global_options
def slow_update_command(settings: Globals) -> ExitCode:
    """Do the end of an epoch if it is due: slow update and meta skill.

    A scheduler can call it at any time: it ends with 0 when an epoch's end is recorded, merged and
    reverted alike, and with 3 when none is due. `step` and `run` do the same by themselves unless
    `schedule.slow_update` is `scheduled`.
    """
    with opened(settings, locked=True) as run:
        outcome = asyncio.run(advance(run, only_epoch_end=True))
    if outcome is None:
        return nothing_to_do("Nothing to do: no epoch's end is due.")
    print_outcome(outcome, settings)
    return ExitCode.DONE


# What a step, or the end of an epoch, did.


def _teller(outcomes: list[Outcome], settings: Globals) -> Callable[[Outcome], None]:
    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        print_outcome(outcome, settings)

    return tell


def print_outcome(outcome: Outcome, settings: Globals) -> None:
    """Print the JSON object on stdout if asked for, and a table where people read.

    ``-q`` leaves one line of the table, ``-v`` adds all that `show` tells.
    """
    if settings.json:
        print_json(outcome_json(outcome))
    if settings.verbosity < 0:
        if not settings.json:
            click.echo(summary(outcome))
        return
    rows: tuple[tuple[str, str], ...]
    if isinstance(outcome, StepOutcome):
        rows = step_rows(outcome.record, outcome.decision, outcome.state, outcome.seconds)
        if settings.verbosity > 0:
            rows = step_rows_in_full(outcome.record)
    else:
        rows = boundary_rows(outcome.record, outcome.seconds)
        if settings.verbosity > 0:
            rows = boundary_rows_in_full(outcome.record)
    click.echo(err=True)
    print_rows(settings, _title(outcome), rows)
    click.echo(file=settings.people)


def _title(outcome: Outcome) -> str:
    if isinstance(outcome, BoundaryOutcome):
        return boundary_title(outcome.record)
    note = " (simulated models)" if outcome.record.simulated else ""
    return f"Step {outcome.record.step} of {outcome.total}, epoch {outcome.record.epoch}{note}"


def summary(outcome: Outcome) -> str:
    """What it did, in one line."""
    if isinstance(outcome, StepOutcome):
        decision = outcome.decision
        told = f"{decision.verdict}, {arrow(decision)}"
    else:
        told = f"{boundary_verdict(outcome.record)}, {outcome.record.gist}"
    return f"{_title(outcome)}: {told}"


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """The same as one flat object; no major version removes or renames a key."""
    record, usage = outcome.record, outcome.record.usage.usage()
    if isinstance(outcome, StepOutcome):
        decision = outcome.decision
        facts: dict[str, object] = {
            "kind": "step",
            "step": record.step,
            "epoch": record.epoch,
            "action": decision.action,
            "score_before": decision.score_before,
            "score_after": decision.score_after,
            "commit": outcome.commit,
            "tasks": decision.compared,
            "edits": outcome.record.proposal.change_count,
        }
    else:
        facts = _epoch_end_json(outcome)
    return {
        **facts,
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }


def _epoch_end_json(outcome: BoundaryOutcome) -> dict[str, object]:
    record = outcome.record
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
    }

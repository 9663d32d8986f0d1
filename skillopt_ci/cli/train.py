"""Commands that train, and those that share out or price what comes next."""

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

import click

from skillopt_ci.cli.build import opened
from skillopt_ci.cli.console import print_rows, print_table, verdict_style
from skillopt_ci.cli.options import FILE, Globals, command, nothing_to_do, print_json
from skillopt_ci.cli.read import RunReader, step_places
from skillopt_ci.config.config import Budget, Limits
from skillopt_ci.errors import RepositoryError, UsageError
from skillopt_ci.estimate.calls import CONFIRMATION, Range
from skillopt_ci.estimate.estimate import Estimate, Part, estimate
from skillopt_ci.ledger.ledger import newest
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.model.types import Usage
from skillopt_ci.report import terminal
from skillopt_ci.report.commits import summary_rows
from skillopt_ci.report.view import RunView, StepPlace, event_view
from skillopt_ci.report.words import arrow, event_name, quoted, rules, usage_text
from skillopt_ci.sanitize import one_line
from skillopt_ci.text import capitalized, plural, score, score_text
from skillopt_ci.training import prefetcher, trainer
from skillopt_ci.training.final_evaluation import FinishOutcome, finish
from skillopt_ci.training.plan import sizes_now, why_over
from skillopt_ci.training.revert import take_back
from skillopt_ci.training.run_context import Run, equipped
from skillopt_ci.training.state import Candidate, candidate_at, find_checkout, read_checkout
from skillopt_ci.util import pick

#: Marks of code and of bold text, which pages do not show.
_UNSHOWN = str.maketrans("", "", "`*")
_PURPOSES = {
    "measure": "to measure the current skill before step {0.step}",
    "rollout": "to roll out the batch of step {0.step}",
    "evaluation": "to measure the candidate of step {0.step}",
    "comparison": "to compare skills at the end of the epoch that step {0.step} ended",
    "test": "to share before the skill of step {0.step} is tested",
}
_notes_option = click.option(
    "--notes", type=FILE, metavar="FILE", help="Review comments, as JSON; each goes to one step."
)


@command()
@click.option(
    "--rollouts",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="A file of answers from `rollout`; may be repeated.",
)
@click.option(
    "--until-candidate",
    is_flag=True,
    help="Stop before evaluating the candidate, so that the next `plan` can shard that.",
)
@_notes_option
def step_command(
    settings: Globals, rollouts: tuple[Path, ...], until_candidate: bool, notes: Path | None
) -> None:
    """Do one training step, or resume an interrupted one.

    The end of an epoch comes first (see `slow-update`). Once no step is left, this does what
    `finish` does, if there are test tasks and evaluation.eval_test is true. Exits with 0 whether
    the step was merged or reverted, and with 3 if nothing is left. No answer is paid for twice.
    """
    outcomes = list[trainer.Outcome]()
    with opened(settings, notes=notes, locked=True) as run:
        if rollouts:
            prefetcher.take_over(run, [settings.cwd / file for file in rollouts])
        before = newest(run.ledger)
        tell = partial(_tell, outcomes, settings)
        found = asyncio.run(_step(run, tell, until_candidate=until_candidate))
    if isinstance(found, Candidate):
        record = found.record
        facts = {"kind": "candidate", "step": record.step, "candidate": found.commit or ""}
        told = f"Step {record.step}: the candidate waits to be measured."
        settings.tell({**facts, "cost_usd": record.usage.cost_usd}, told)
    elif found is not None:
        _tell_finish(found, settings)
    elif not outcomes:
        _tell_recorded(run, before, settings)


def _tell_recorded(run: Run, before: str, settings: Globals, why: str = "") -> None:
    """Tell what was recorded since the commit ``before``; end the command if that is nothing."""
    after = newest(run.ledger)
    old, new = (run.ledger.at(one).read_history() for one in (before, after))
    facts = "kind step epoch action score_before score_after tasks cost_usd=usage.cost_usd"
    for entry in new[len(old) :]:
        told = f"{event_name(entry)}: {one_line(entry.reason, 200)}"
        settings.tell({**pick(entry, facts), "commit": after}, told)
    if len(new) == len(old):
        nothing_to_do(f"Nothing left to do: {why or _why_over(run)}.", settings)


async def _step(
    run: Run, tell: Callable[[trainer.Outcome], None], *, until_candidate: bool
) -> Candidate | FinishOutcome | None:
    work = trainer.advance_to_candidate if until_candidate else trainer.advance
    async with equipped(run) as (ready, _):
        while (found := await trainer.patiently(ready, work, patience=0)) is not None:
            if isinstance(found, Candidate):
                return found
            tell(found)
            trainer.refuse_unusable_optimizer(ready, found)
            if found.is_step:
                return None
        return await trainer.patiently(ready, partial(finish, early=False), 0)


@command()
@_notes_option
def run_command(settings: Globals, notes: Path | None) -> None:
    """Do all remaining training steps, or as many as the budget allows.

    After the last step it does what `finish` does, unless evaluation.eval_test is false. Interrupt
    it at any time (Ctrl-C): `run` or `step` resumes from there. Exits with 3 if nothing is left.
    """
    outcomes = list[trainer.Outcome]()
    with opened(settings, notes=notes, locked=True) as run:
        before = newest(run.ledger)
        ended = asyncio.run(train_to_end(run, partial(_tell, outcomes, settings)))
    if ended is not None:
        _tell_finish(ended, settings, in_json=not outcomes)  # --json must not stay empty
    elif not outcomes:
        _tell_recorded(run, before, settings)
    if settings.verbosity >= 0:
        steps = sum(outcome.is_step for outcome in outcomes)
        ends = len(outcomes) - steps
        done = plural(steps, "step") + (f" and {plural(ends, 'epoch end')}" if ends else "")
        settings.say(f"{capitalized(_why_over(run))}. This command did {done}.", err=True)


def _why_over(run: Run) -> str:
    there = read_checkout(run.ledger, run.skill_path, newest(run.ledger), branch=None)
    return why_over(run.config, sizes_now(run, there), there.state)


async def train_to_end(run: Run, tell: Callable[[trainer.Outcome], None]) -> FinishOutcome | None:
    async with prefetcher.prefetching(run) as ready:
        async with aclosing(trainer.train(ready)) as outcomes:
            async for outcome in outcomes:
                tell(outcome)
        # a scheduled end of an epoch may still change the skill
        end = partial(finish, early=run.config.schedule.slow_update == "inline")
        return await trainer.patiently(ready, end) if run.config.evaluation.eval_test else None


@command()
def finish_command(settings: Globals) -> None:
    """Evaluate the last skill, test the initial, best and last one, and summarize the run.

    `run` and `step` do this once no step is left, unless `evaluation.eval_test` is false (or, for
    `step`, there are no test tasks). Call it to end a run early, or after a change to the test
    tasks. One commit records it. Exits with 3 if nothing has changed since then.
    """
    with opened(settings, locked=True) as run:
        outcome = asyncio.run(trainer.patiently(run, finish))
    if outcome is None:
        nothing_to_do("Nothing left to do: the run is finished.", settings)
    _tell_finish(outcome, settings)


def _tell_finish(outcome: FinishOutcome, settings: Globals, *, in_json: bool = True) -> None:
    if in_json and settings.json:
        facts = {"commit": outcome.checkout.commit, "seconds": round(outcome.seconds, 3)}
        print_json({**outcome.summary.model_dump(mode="json"), **facts})
    print_finish(outcome, settings)


def print_finish(outcome: FinishOutcome, settings: Globals) -> None:
    found, quiet = outcome.summary, settings.verbosity < 0
    note = " (simulated models)" if found.simulated else ""
    before, after = found.initial.test, found.best.test
    if quiet and before and after:
        settings.say(f"Test score{note}: {score(before.hard)} → {score_text(after.hard, after.n)}")
    claim = RunView(outcome.checkout.state, outcome.checkout.history).claim
    rows = [] if quiet else [*summary_rows(found, outcome.seconds)]
    rows += [("fresh attempts", claim)] if claim else []
    print_rows(settings, "" if quiet else f"Run {found.run}{note}", rows)


@command("slow-update")
def slow_update_command(settings: Globals) -> None:
    """Do the end of an epoch if it is due: slow update and meta skill.

    `step` and `run` do this unless `schedule.slow_update` is `scheduled`. A scheduler can call it
    at any time: it exits with 0 if an epoch's end was recorded, whether merged or reverted, or a
    score that was due before it, and with 3 if there was neither.
    """
    with opened(settings, locked=True) as run:
        before = newest(run.ledger)
        outcome = asyncio.run(
            trainer.patiently(run, partial(trainer.advance, only_epoch_end=True), 0)
        )
    if outcome is None:
        _tell_recorded(run, before, settings, "no epoch's end is due")
    else:
        print_outcome(outcome, settings)


@command()
@click.argument("what", metavar="STEP_OR_WORDS", nargs=-1, required=True)
def revert_command(settings: Globals, what: tuple[str, ...]) -> None:
    """Take back a merged step, given by its number, or a single rule, given by words from it.

    One commit undoes the step's or the rule's change to the skill; other rules, later steps and
    people's changes stay. The optimizer sees what was taken back, and `step` or `run` scores the
    skill first. Exits with 2 if that text has changed since, and with 3 if none of it is left.
    """
    with opened(settings, locked=True) as run:
        checkout = find_checkout(run.ledger, run.skill_path, run.ledger.sync(), run.render)
        if checkout.state is None:
            raise RepositoryError("There is nothing to take back: training has not started.")
        reader = RunReader(run.ledger, checkout.commit, checkout.state, checkout.history)
        step, edit = _named(reader, " ".join(what))
        place = step_places(reader).get(("step", step))
        if place is None or not place.candidate:
            raise RepositoryError(
                f"The commit that merged step {step} is out of reach: its branch was squashed, or "
                "this clone is shallow.",
                hint="Fetch all of it (git fetch --unshallow), or edit the skill by hand, on "
                f"skillopt/{run.config.run} or, once merged, on {run.ledger.base}; then `step`.",
            )
        by = one_line(settings.environ.get("GITHUB_ACTOR") or "a person", 60)
        commit = take_back(run, checkout, step, place.verdict, by, edit)
    if commit is None:
        left = "that rule" if edit else f"step {step}"
        nothing_to_do(f"Nothing to do: the skill has nothing left of {left}.", settings)
    one = f"A rule of step {step}" if edit else f"Step {step}"
    settings.tell(
        {"kind": "revert", "step": step, "edit": edit, "commit": commit, "cost_usd": 0.0},
        f"{one} is taken back. `step` or `run` scores the skill again and tells the optimizer.",
    )


def _named(reader: RunReader, what: str) -> tuple[int, int]:
    """The one merged step that ``what`` names, and its rule's number or 0 for all of it."""
    merged = [one.step for one in reader.history if one.kind == "step" and one.stays]
    named = list(_matching(reader, merged, what))
    if len(named) != 1:
        gone = {one.step for one in reader.history if one.kind == "revert" and not one.edit}
        left = ", ".join(str(step) for step in dict(named) or merged if step not in gone) or "none"
        which = "several rules have these words" if named else "no merged step or rule matches"
        raise UsageError(f"{what!r} does not name one change: {which} (merged steps: {left}).")
    ((step, number),) = named
    if not number or len(rules(proposal := reader.step(step).proposal)) == 1:
        return step, 0
    if number > len(proposal.applied_edits):
        raise UsageError(
            f"{what!r} names a change of step {step} that is not a single edit.",
            hint=f"`revert {step}` takes the whole step back. To drop only this, edit the skill on "
            f"skillopt/{reader.state.run}; `step` or `run` scores it again.",
        )
    return step, number


def _matching(reader: RunReader, steps: Sequence[int], what: str) -> Iterator[tuple[int, int]]:
    if found := re.fullmatch(r"(?i)(?:step\s+)?(\d{1,9})", what.strip()):
        yield from ((step, 0) for step in steps if step == int(found[1]))
    elif words := quoted(what.rstrip(" .…"), 10_000).casefold().translate(_UNSHOWN):
        for step in steps:
            for number, rule in enumerate(rules(reader.step(step).proposal, 10_000), start=1):
                if words in rule.casefold().translate(_UNSHOWN):
                    yield step, number


def _tell(outcomes: list[trainer.Outcome], settings: Globals, outcome: trainer.Outcome) -> None:
    outcomes.append(outcome)
    print_outcome(outcome, settings)


def print_outcome(outcome: trainer.Outcome, settings: Globals) -> None:
    """Print a table, of which ``-q`` leaves one line and to which ``-v`` adds all of `show`."""
    if settings.json or settings.verbosity < 0:
        settings.tell(outcome_json(outcome), summary(outcome, colour=settings.colour))
    if settings.verbosity < 0:
        return
    view = event_view(outcome.record, StepPlace(seconds=outcome.seconds))
    brief = terminal.rows_at_a_glance(view, outcome.state)
    rows = terminal.rows_in_full(view) if settings.verbosity else brief
    click.echo(err=True)
    print_rows(settings, terminal.title(outcome.record, outcome.total), rows)
    click.echo(file=settings.people)


def summary(outcome: trainer.Outcome, *, colour: bool = False) -> str:
    view, decision, scores = event_view(outcome.record), outcome.decision, ""
    if outcome.is_step and decision is not None and decision.score_after is not None:
        scores = f", {arrow(decision)}"
    shown = click.style(view.verdict, fg=verdict_style(view.verdict)) if colour else view.verdict
    return f"{terminal.title(outcome.record, outcome.total)}: {shown}{scores}"


def outcome_json(outcome: trainer.Outcome) -> dict[str, object]:
    """The same as one flat object; no major version removes or renames a key."""
    record, usage, decision = outcome.record, outcome.record.usage, outcome.decision
    if isinstance(record, StepRecord):
        place = {"kind": "step", **pick(record, "step epoch action=decision.action")}
        more: dict[str, object] = {"edits": record.proposal.change_count}
    else:
        place = {"kind": "slow_update", **pick(record, "epoch step action")}
        slow, meta = record.slow_update, record.meta_skill
        more = {
            "pairs": len(record.pairs),
            "guidance": slow and slow.action,
            "meta_skill": meta and meta.action,
        }
    current = outcome.state.current.measurement.score
    return {
        **place,
        "score_before": current if decision is None else decision.score_before,
        "score_after": decision and decision.score_after,
        "commit": outcome.commit,
        "tasks": 0 if decision is None else decision.compared,
        **more,
        **pick(usage, "calls tokens cost_usd"),
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }


@command()
@click.option(
    "--shards", "most", type=click.IntRange(1, 256), default=4, help="Maximum number of shards."
)
@_notes_option
def plan_command(settings: Globals, most: int, notes: Path | None) -> None:
    """Split the next attempts into shards for several machines.

    Calls no model and changes nothing. With --json, `matrix` is for a workflow's `strategy.matrix`
    (with `fromJSON`): each job runs `rollout --shard`, and a last one `step --rollouts`. Exits with
    3 if nothing is left to do.
    """
    with opened(settings, notes=notes) as run:
        outlook = prefetcher.look_ahead(run)
        if outlook is None:
            why = f"Nothing left to do: {_why_over(run)}."
            nothing_to_do(why, settings, phase="", step=None, attempts=0, matrix={"shard": []})
    names = [str(part) for part in prefetcher.shards(outlook, most)]
    attempts, purpose = len(outlook.attempts), _PURPOSES[outlook.phase].format(outlook)
    settings.tell(
        {**pick(outlook, "phase step"), "attempts": attempts, "matrix": {"shard": names}},
        f"{plural(attempts, 'attempt')} {purpose}, in {plural(len(names), 'shard')}: "
        f"{', '.join(names)}",
    )


@command()
@click.option(
    "--shard", required=True, metavar="I/N", help="The shard to make, as `plan` names it."
)
@click.option(
    *("--output", "-O"),
    type=FILE,
    default=Path("answers.jsonl"),
    metavar="FILE",
    help="Where to write the answers.",
)
@_notes_option
def rollout_command(settings: Globals, shard: str, output: Path, notes: Path | None) -> None:
    """Make one shard of the attempts that `plan` lists, and write the answers to a file.

    Records nothing in git: `step --rollouts FILE` reads the answers and does the step. However this
    command ends, the file has every answer so far. Each of N shards gets 1/N of the budgets.
    Give `step` only files from jobs that you trust: it treats their answers as the model's.
    """
    part = prefetcher.Shard.parse(shard)
    if output == Path("-"):
        raise UsageError("The answers need a file: name it with --output FILE.")
    with opened(settings, notes=notes) as run:
        outlook = prefetcher.look_ahead(run)
        if outlook is None:
            nothing_to_do(f"Nothing left to do: {_why_over(run)}.", settings)
        done = asyncio.run(prefetcher.roll_out_shard(run, outlook, part, settings.cwd / output))
    used = "calls=usage.calls tokens=usage.tokens cost_usd=usage.cost_usd"
    errors = plural(done.errors, "attempt")
    missing = f"; {errors} not measured, which the step tries again" if done.errors else ""
    settings.tell(
        {"phase": outlook.phase, "shard": shard, **pick(done, f"attempts errors answers {used}")},
        f"{plural(done.attempts, 'attempt')}, {plural(done.answers, 'answer')} in {output}"
        f"{missing}. Used {usage_text(done.usage)}.",
    )


@command()
def estimate_command(settings: Globals) -> None:
    """Estimate the calls and cost of the next step, the rest of its epoch and the rest of the run.

    Calls no model and changes nothing. Counts are given as likely (least–most). Sizes are the means
    of this run's calls so far; before the first, they are computed from the texts. You get a
    warning if the estimate exceeds your `budget`.
    """
    with opened(settings) as run:
        position = run.ledger.sync()
        checkout = find_checkout(run.ledger, run.skill_path, position)
        there = candidate_at(run, checkout, position.candidate)
        found = estimate(run, checkout, there)
        spent = checkout.spent if there is None else checkout.spent + there.record.usage
    warnings = [*over_budget(run.config.budget, found, spent)]
    if settings.json:
        print_json({**terminal.estimate_json(found), "warnings": warnings})
        return
    if not found.rest.stages:
        click.echo("Nothing is left to do, and nothing to pay for.")
        return
    parts = (found.step, found.epoch, found.rest) if settings.verbosity >= 0 else (found.rest,)
    limits, used = run.config.budget.run, (spent.calls, spent.tokens, spent.cost_usd or 0)
    left = [
        math.inf if limit is None else max(0, limit - amount)
        for limit, amount in zip((limits.calls, limits.tokens, limits.cost_usd), used, strict=True)
    ]
    for part in [one for one in parts if one.stages]:
        title, rows = capitalized(part.name), terminal.part_rows(part, left)
        # a narrow terminal goes without these, but not without stage and cost
        spare = ("tokens a call", "tokens", "role")
        print_table(settings, terminal.ESTIMATE_HEADINGS, rows, title, spare)
        click.echo()
    for role in dict.fromkeys(one.account.role for one in found.rest.stages):
        settings.say(f"price of the {role}: {found.tariffs[role].text}")
    simulated = "Simulated models cost nothing; these numbers say little about real ones."
    for sentence in (*found.assumptions, *([simulated] if run.simulated else [])):
        settings.say(f"· {sentence}")
    for warning in warnings:
        settings.say(f"warning: {warning}", err=True)


def over_budget(budget: Budget, found: Estimate, spent: Usage) -> Iterator[str]:
    """Which budgets likely end the work, given the ``spent``; confirmation uses what is left."""
    yield from _exceeded(
        "budget.step", budget.step, found.step, Usage(), "will likely break off the step, which"
    )
    rest = Part("", tuple(one for one in found.rest.stages if one.account != CONFIRMATION))
    yield from _exceeded(
        "budget.run", budget.run, rest, spent, "will end the run early: without confirmation, it"
    )


def _exceeded(key: str, limits: Limits, part: Part, spent: Usage, effect: str) -> Iterator[str]:
    for name in ("calls", "tokens", "cost_usd"):
        limit, needed = getattr(limits, name), getattr(part, name)() or Range()
        need = needed.likely + (getattr(spent, name) or 0)
        if part.stages and limit is not None and need > limit:
            about = f"{need:,}" if isinstance(need, int) else f"{need:,.2f}"
            yield f"{key}.{name} is {limit:,} and {effect} takes about {about}"

"""Which attempts tell most of a step: what it broke, what it learned from, what it fixed."""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from skillopt_ci.ledger.records import BoundaryRecord, Decision, StepRecord
from skillopt_ci.page.trajectories import Wish
from skillopt_ci.report.run_view import RunView
from skillopt_ci.rollout.types import FAILURE_BELOW

#: A section asks for so many attempts at most.
MOST = 24


def wishes(run: RunView) -> dict[str, tuple[Wish, ...]]:
    """The wishes of each step and each epoch's end, most telling first, by its section.

    The newest come first. Attempts at test tasks are never among them: whoever reads those and
    edits the skill has trained on them.
    """
    steps = {f"step-{one.step}": _of_step(one) for one in run.steps}
    ends = {f"epoch-{one.epoch}": _of_epoch(one) for one in run.epochs}
    last = {f"step-{one.step}": (one.epoch, 0, one.step) for one in run.steps}
    last |= {f"epoch-{one.epoch}": (one.epoch, 1, one.step) for one in run.epochs}
    found = steps | ends
    return {name: found[name] for name in sorted(found, key=last.__getitem__, reverse=True)}


def _of_step(record: StepRecord) -> tuple[Wish, ...]:
    proposal = record.proposal
    tasks = dict.fromkeys(task.id for task in proposal.rollout.tasks if task.failed)
    failed = [Wish("rollout", task, proposal.attempted_under, solved=False) for task in tasks]
    return _in_turn(failed, record.decision, proposal.skill_before, proposal.skill_after)


def _of_epoch(record: BoundaryRecord) -> tuple[Wish, ...]:
    failed = [
        Wish("slow_rollout", pair.id, record.skill_before, solved=False)
        for pair in record.pairs
        if pair.current.hard < FAILURE_BELOW
    ]
    return _in_turn(failed, record.decision, record.skill_before, record.skill_after)


def _in_turn(
    failed: Sequence[Wish], decision: Decision | None, before: str, after: str
) -> tuple[Wish, ...]:
    """What was broken, learned from and fixed in turn, each change with the attempt before it."""
    if decision is None:
        return tuple(failed[:MOST])
    broken = list(_changes(decision.broken, before, after, solved=False))
    fixed = list(_changes(decision.fixed, before, after, solved=True))
    measured = {} if decision.measurement is None else decision.measurement.tasks
    open_still = [
        Wish("selection", task, after, solved=False)
        for task, (hard, _) in measured.items()
        if hard < FAILURE_BELOW and task not in decision.broken
    ]
    mixed = chain.from_iterable(zip_longest(broken, failed, fixed))
    return tuple(dict.fromkeys(filter(None, chain(mixed, open_still))))[:MOST]


def _changes(tasks: Sequence[str], before: str, after: str, *, solved: bool) -> Iterator[Wish]:
    for task in tasks:
        yield Wish("selection", task, after, solved=solved)
        yield Wish("selection", task, before, solved=not solved)

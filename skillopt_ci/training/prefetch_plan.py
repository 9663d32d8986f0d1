"""Which rollouts the next piece of work begins with: for `plan`, its shards and the prefetcher."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.attempts import next_rounds, round_of
from skillopt_ci.training.baseline import as_settled, best_text, learns_nothing, unscored
from skillopt_ci.training.evaluate import known_measurement, planned_tasks
from skillopt_ci.training.plan import boundary_due, plan_step, total_steps
from skillopt_ci.training.resume import Candidate, candidate_at
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.slow_update import (
    earlier_skill,
    first_epoch,
    sampling_order,
    sampling_seed,
)
from skillopt_ci.training.state import Settled, Standing, foresee_standing

#: What rollouts are for: the current skill's score, a step's batches, the decision on a candidate
#: in flight, or the comparison of two epochs' skills.
Phase = Literal["measure", "rollout", "evaluation", "comparison"]
#: Attempts that were made under a skill: the task's id and the attempt's number.
Made = Iterable[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is done next in a run, for step ``step``; ``attempts`` may be empty.

    ``spent`` is what the run has consumed so far.
    """

    phase: Phase
    step: int
    attempts: tuple[AttemptRequest, ...]
    spent: Usage


def look_ahead(run: Run) -> Outlook | None:
    """Say what is next, writing nothing; None if nothing is left.

    Raises what :func:`~skillopt_ci.training.state.find_standing` raises.
    """
    position = run.ledger.sync()
    standing = foresee_standing(run, position)
    if standing.state is None or unscored(run, standing):
        step = 1 if standing.state is None else standing.state.step + 1
        return Outlook("measure", step, tuple(_to_measure(run, standing)), standing.spent)
    settled = as_settled(standing, standing.state)
    if position.candidate is not None:
        candidate = candidate_at(run, settled, position.candidate)
        if candidate is not None:
            return _evaluation(run, settled, candidate)
    return look_beyond(run, settled, attempts_so_far(run, settled))


def look_beyond(run: Run, standing: Settled, made: Made) -> Outlook | None:
    """What is next without a candidate in flight, if ``made`` were made under the skill."""
    epoch = epoch_end_before_batch(run, standing)
    if epoch is None:
        return _rollout(run, standing, standing.skill, made)
    if epoch > 1:
        both = (*earlier_side(run, standing, epoch), *_side(run, standing.skill, epoch))
        return Outlook("comparison", standing.state.step, both, standing.spent)
    # The first end asks no model, and its place for guidance makes another text of the skill.
    skill, _ = first_epoch(run, standing)
    nothing = Outlook("comparison", standing.state.step, (), standing.spent)
    return _rollout(run, standing, skill, made if skill == standing.skill else ()) or nothing


def epoch_end_before_batch(run: Run, standing: Settled) -> int | None:
    """The epoch whose end comes before the next batch, if one does."""
    inline = run.config.schedule.slow_update == "inline"
    return boundary_due(run, standing) if inline else None


def earlier_side(run: Run, standing: Settled, epoch: int) -> tuple[AttemptRequest, ...]:
    """The attempts of a comparison that are made under the skill of the epoch before."""
    return _side(run, earlier_skill(run, standing, epoch), epoch)


def _side(run: Run, skill: str, epoch: int) -> tuple[AttemptRequest, ...]:
    size = run.config.optimizer.slow_update_samples
    drawn = sampling_order(run.splits.train, sampling_seed(run, epoch))[:size]
    return tuple(_attempts(drawn, skill, "slow_rollout", run.config.rollout.attempts))


def _to_measure(run: Run, standing: Standing) -> Iterator[AttemptRequest]:
    attempts = run.config.rollout.attempts
    yield from _attempts(run.selection, standing.skill, "selection", attempts)
    state, best = standing.state, best_text(run, standing)
    if state is not None and best is not None and state.measured_under != run.measured_under:
        yield from _attempts(run.selection, best, "selection", attempts)


def _evaluation(run: Run, standing: Settled, candidate: Candidate) -> Outlook:
    evaluation, each = run.config.evaluation, run.config.rollout.attempts
    planned = set(planned_tasks(run, standing, evaluation))
    known = known_measurement(run, standing, candidate.skill)
    if known is not None:
        planned -= {*known[1].tasks, *known[1].errors}
    tasks = [task for task in run.selection if task.id in planned]
    attempts = tuple(_attempts(tasks, candidate.skill, "selection", each))
    return Outlook("evaluation", candidate.record.step, attempts, standing.spent)


def _rollout(run: Run, standing: Settled, skill: str, made: Made) -> Outlook | None:
    """The attempts at the next step's tasks, None if there is no such step."""
    step, tasks, train = standing.state.step + 1, run.splits.train, run.config.train
    if step > total_steps(len(tasks), train) or learns_nothing(run, standing):
        return None
    plan, each = plan_step(tasks, train, step, run.first_seed), run.config.rollout.attempts
    drawn = {task.id: task for batch in plan.batches for task in batch.tasks}
    orders = tuple(
        AttemptRequest(one.task, skill, "rollout", number)
        for one in next_rounds(drawn.values(), made, each)
        for number in round_of(one.number, each)
    )
    return Outlook("rollout", step, orders, standing.spent)


def _attempts(
    tasks: Sequence[Task], skill: str, stage: str, attempts: int
) -> Iterator[AttemptRequest]:
    return (
        AttemptRequest(task, skill, stage, number) for task in tasks for number in range(attempts)
    )

"""Compare: the same training tasks under the last epoch's skill and under the current one."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from skillopt_ci.aio import siblings
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.pairs import Category, Pair, sample_pairs
from skillopt_ci.training.plan import EPOCH_STRIDE
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Settled


def earlier_skill(session: Session, standing: Settled, epoch: int) -> str:
    """The skill with which the last epoch ended that was worked on; the initial one if none was."""
    folder = session.folder
    paths = [folder.epoch_skill(number) for number in range(epoch - 1, 0, -1)]
    for path in (*paths, folder.initial_skill):
        text = session.ledger.read(standing.commit, path)
        if text is not None:
            return text
    return standing.skill


async def compare_epochs(
    session: Session, earlier: str, current: str, epoch: int, bench: Bench
) -> tuple[Pair, ...]:
    """Roll a sample of the training tasks out under both skills and pair the results.

    Raises :class:`~skillopt_ci.errors.TooManyErrors` when too many attempts were not measured.
    """
    optimizer, train = session.config.optimizer, session.splits.train
    observer, limit = session.observer, session.config.evaluation.max_error_rate
    sample = min(optimizer.slow_update_samples, len(train))
    observer(StageStarted("compare", 2 * sample * bench.runner.attempts))

    async def both(tasks: Sequence[Task]) -> tuple[Sequence[Rollout], Sequence[Rollout]]:
        roll_out = partial(
            bench.runner.roll_out,
            tasks,
            stage="slow_rollout",
            done=lambda one: observer(StageAdvanced("compare", one.task_id)),
        )
        async with siblings() as sides:
            before = sides.create_task(roll_out(earlier))
            after = sides.create_task(roll_out(current))
        refuse_too_many_errors((*before.result(), *after.result()), limit, "comparison")
        return before.result(), after.result()

    pairs = await sample_pairs(
        train,
        optimizer.slow_update_samples,
        sampling_seed(session, epoch),
        optimizer.longitudinal_pair_policy,
        both,
    )
    observer(StageFinished("compare", _counted(pairs)))
    return pairs


def sampling_seed(session: Session, epoch: int) -> int:
    """The seed of the sample at the end of ``epoch``."""
    return session.config.train.seed + 2 * EPOCH_STRIDE * epoch


def _counted(pairs: Sequence[Pair]) -> str:
    counts = Counter(pair.category for pair in pairs)
    named = (f"{counts[one]} {one.value.replace('_', ' ')}" for one in Category if counts[one])
    return ", ".join(named) or "no task that is wanted"

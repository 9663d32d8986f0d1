"""Epochs: which end of an epoch is due."""

from skillopt_ci.config.config import Config
from skillopt_ci.ledger.records import State
from skillopt_ci.training.plan import steps_per_epoch
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled


def boundary_due(session: Session, standing: Settled) -> int | None:
    """The epoch whose end is due, if any; see :func:`completed_epoch`."""
    return completed_epoch(session.config, len(session.splits.train), standing.state)


def completed_epoch(config: Config, n_train: int, state: State) -> int | None:
    """The last completed epoch if its end was not worked on yet, of a run that has such ends.

    Epochs that were passed over (a scheduler that never came) are not made up for.
    """
    optimizer, train = config.optimizer, config.train
    if not (optimizer.use_slow_update or optimizer.use_meta_skill):
        return None
    completed = state.step // steps_per_epoch(n_train, train.batch_size, train.accumulation)
    return completed if completed > state.boundary else None

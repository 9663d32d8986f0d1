"""Upcoming: what the next command will do, told from the state of a run and its configuration.

This is what a person is told without a look at tasks, models or remotes. What has to be exact,
attempt by attempt, is :mod:`.outlook`'s.
"""

from dataclasses import dataclass
from typing import Literal

from skillopt_ci.config.config import Config
from skillopt_ci.ledger.records import HistoryEntry, State
from skillopt_ci.training.epochs import completed_epoch
from skillopt_ci.training.first_look import no_score_is_higher
from skillopt_ci.training.plan import total_steps

#: A step, the end of an epoch (with the step after it, if one is left), the end of the run, or
#: nothing: because all is done, or because the skill solves everything already.
Work = Literal["step", "epoch_end", "finish", "done", "nothing_to_learn"]


@dataclass(frozen=True, slots=True)
class Upcoming:
    """What is next in a run of ``total`` steps.

    ``step`` is the step to come, None if none is left; ``epoch_end`` the epoch whose end is due,
    None if none is; ``scheduled``: that end waits for `slow-update`, `step` and `run` pass it by.
    """

    work: Work
    total: int
    step: int | None = None
    epoch_end: int | None = None
    scheduled: bool = False


def upcoming(config: Config, n_train: int, state: State, last: HistoryEntry | None) -> Upcoming:
    """Say what comes next where nothing is in flight; ``last`` is the newest event of the run.

    Raises :class:`~skillopt_ci.errors.ConfigError` as :func:`~.plan.total_steps` does.
    """
    total = total_steps(n_train, config.train)
    step = state.step + 1 if state.step < total else None
    due = completed_epoch(config, n_train, state)
    scheduled = config.schedule.slow_update == "scheduled"
    if due is not None and not (scheduled and step is not None):
        return Upcoming("epoch_end", total, step, due, scheduled)
    if step is not None:
        stuck = state.step == 0 and no_score_is_higher(config, state.current)
        return Upcoming("nothing_to_learn" if stuck else "step", total, step, due, scheduled)
    finished = last is not None and last.kind == "finish"
    work: Work = "finish" if config.evaluation.eval_test and not finished else "done"
    return Upcoming(work, total)

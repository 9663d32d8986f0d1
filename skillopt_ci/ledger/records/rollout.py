"""Training attempts."""

from skillopt_ci.ledger.records.base import Record
from skillopt_ci.rollout.types import FAILURE_BELOW, Status


class TaskOutcome(Record):
    """One training attempt."""

    id: str
    status: Status
    hard: float
    soft: float
    reason: str = ""
    task_type: str = ""
    attempt: int = 0
    """Which attempt under this skill it was, from 0."""

    @property
    def failed(self) -> bool:
        """Whether the model is known to have failed the task."""
        return self.status.measured and self.hard < FAILURE_BELOW


class RolloutRecord(Record):
    """The training rollouts of a step."""

    hard: float
    soft: float
    n: int
    errors: int
    tasks: tuple[TaskOutcome, ...] = ()


class BatchRecord(Record):
    """One batch of a step: its seed, its rollouts, the patches made from them."""

    seed: int
    hard: float
    soft: float
    n: int
    n_failure_patches: int
    n_success_patches: int

"""Everything that is told of a skill's attempts at once."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.rollout.metrics.errors import ErrorCount, error_table
from skillopt_ci.rollout.metrics.estimate import Estimate, estimate
from skillopt_ci.rollout.metrics.lengths import Quartiles, quartiles
from skillopt_ci.rollout.metrics.limits import LimitShare, limit_shares, model_ended
from skillopt_ci.rollout.metrics.mean import task_means
from skillopt_ci.rollout.metrics.passing import mean_pass, pass_at_k, pass_hat_k
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.rollout.steps import Limit

#: The name of the bucket of tasks that have no type.
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the metrics need of an attempt: small, where its conversation is not.

    ``length`` is the number of messages, None where there is no conversation.
    """

    task_id: str
    task_type: str
    status: Status
    hard: float
    soft: float
    reason: str = ""
    limit: Limit | None = None
    length: int | None = None

    @property
    def solved(self) -> bool:
        """Whether the score is the full one: partial credit is not solved."""
        return self.status.measured and self.hard == 1


def outcome_of(rollout: Rollout) -> Outcome:
    """Reduce an attempt to what is counted.

    Raises ValueError for a score that is not from 0 to 1: no mean of such scores means anything.
    """
    if not (0 <= rollout.hard <= 1 and 0 <= rollout.soft <= 1):
        raise ValueError(
            f"task {rollout.task_id!r} scored {rollout.hard:g} (hard) and {rollout.soft:g} (soft): "
            "scores are from 0 to 1"
        )
    return Outcome(
        task_id=rollout.task_id,
        task_type=rollout.task_type,
        status=rollout.status,
        hard=rollout.hard,
        soft=rollout.soft,
        reason=rollout.reason,
        limit=rollout.limit,
        length=len(rollout.messages) or None,
    )


@dataclass(frozen=True, slots=True)
class Bucket:
    """The tasks of one type: their mean hard and soft score, over ``hard.n`` measured tasks."""

    task_type: str
    hard: Estimate
    soft: Estimate


@dataclass(frozen=True, slots=True)
class Summary:
    """What attempts amount to. Means weight tasks alike, however many attempts each has.

    ``hard`` and ``soft`` leave out what was not measured; ``pessimistic_hard`` and
    ``pessimistic_soft`` count it as 0, over all tasks (None without any). ``complete`` says that
    every task was measured in each of its attempts, so that nothing is left out. ``missing``
    names the tasks without any measured attempt. ``pass_at`` and ``pass_hat`` are by k, empty
    where each task has one attempt.
    """

    tasks: int
    attempts: int
    measured: int
    solved: int
    hard: Estimate
    soft: Estimate
    pessimistic_hard: float | None
    pessimistic_soft: float | None
    complete: bool
    missing: tuple[str, ...]
    errors: tuple[ErrorCount, ...]
    by_type: tuple[Bucket, ...]
    limits: tuple[LimitShare, ...]
    model_ended: float | None
    lengths: Quartiles | None
    pass_at: Mapping[int, float]
    pass_hat: Mapping[int, float]

    @property
    def unsolved(self) -> int:
        """Measured attempts that did not solve their task; errors are not among them."""
        return self.measured - self.solved


def summarise(
    attempts: Iterable[Rollout],
    *,
    expected: Mapping[str, int] | None = None,
    clusters: Mapping[str, str] | None = None,
) -> Summary:
    """Sum up ``attempts`` as :func:`summary_of` does; a stream of them is not kept in memory."""
    return summary_of(map(outcome_of, attempts), expected=expected, clusters=clusters)


def summary_of(
    attempts: Iterable[Outcome],
    *,
    expected: Mapping[str, int] | None = None,
    clusters: Mapping[str, str] | None = None,
) -> Summary:
    """Sum up what is counted of attempts, in any order.

    ``expected`` says how many attempts each task should have (one that never came counts as
    unmeasured); without it every task should have as many as the one with most. ``clusters``
    names the groups of tasks that vary together.
    """
    outcomes = list(attempts)
    made = Counter(outcome.task_id for outcome in outcomes)
    due = expected or dict.fromkeys(made, max(made.values(), default=0))
    measured = [outcome for outcome in outcomes if outcome.status.measured]
    counts = Counter(outcome.task_id for outcome in measured)
    ended = [(outcome.limit, outcome.solved) for outcome in measured]
    return Summary(
        tasks=len(due),
        attempts=len(outcomes),
        measured=len(measured),
        solved=sum(outcome.solved for outcome in measured),
        hard=_estimate(measured, lambda one: one.hard, clusters),
        soft=_estimate(measured, lambda one: one.soft, clusters),
        pessimistic_hard=_pessimistic(outcomes, due, lambda one: one.hard),
        pessimistic_soft=_pessimistic(outcomes, due, lambda one: one.soft),
        complete=all(counts[task] >= number for task, number in due.items()),
        missing=tuple(task for task in due if not counts[task]),
        errors=error_table((o.status, o.reason) for o in outcomes if not o.status.measured),
        by_type=_by_type(measured, clusters),
        limits=limit_shares(ended),
        model_ended=model_ended(ended),
        lengths=quartiles([one.length for one in measured if one.length is not None]),
        pass_at=_passes(measured, pass_at_k),
        pass_hat=_passes(measured, pass_hat_k),
    )


Read = Callable[[Outcome], float]


def _estimate(
    measured: Sequence[Outcome], read: Read, clusters: Mapping[str, str] | None
) -> Estimate:
    means = task_means((one.task_id, read(one)) for one in measured)
    groups = None if clusters is None else [clusters[task] for task in means]
    return estimate([*means.values()], groups, shares=True)


def _pessimistic(outcomes: Sequence[Outcome], due: Mapping[str, int], read: Read) -> float | None:
    scores: dict[str, list[float]] = {task: [] for task in due}
    for one in outcomes:
        scores.setdefault(one.task_id, []).append(read(one) if one.status.measured else 0.0)
    means = [math.fsum(own) / max(len(own), due.get(task, 0), 1) for task, own in scores.items()]
    return math.fsum(means) / len(means) if means else None


def _by_type(measured: Sequence[Outcome], clusters: Mapping[str, str] | None) -> tuple[Bucket, ...]:
    kinds: dict[str, list[Outcome]] = {}
    for one in measured:
        kinds.setdefault(one.task_type or OTHER, []).append(one)
    return tuple(
        Bucket(
            kind,
            _estimate(own, lambda one: one.hard, clusters),
            _estimate(own, lambda one: one.soft, clusters),
        )
        for kind, own in sorted(kinds.items())
    )


def _passes(
    measured: Sequence[Outcome], measure: Callable[[int, int, int], float | None]
) -> dict[int, float]:
    attempts = Counter(one.task_id for one in measured)
    solved = Counter(one.task_id for one in measured if one.solved)
    counts = [(number, solved[task]) for task, number in attempts.items()]
    most = max(attempts.values(), default=0)
    passes = {k: mean_pass(counts, k, measure) for k in _ks(most)}
    return {k: value for k, value in passes.items() if value is not None}


def _ks(most: int) -> list[int]:
    """1, 2, 4, … and the number of attempts itself; none where there is but one."""
    powers = [2**n for n in range(most.bit_length()) if 2**n < most]
    return [*powers, most] if most > 1 else []

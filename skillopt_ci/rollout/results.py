"""From what came of the work to the result of the attempt."""

from skillopt_ci.rollout.order import Order
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.rollout.work import Worked
from skillopt_ci.scorers.base import Score


def graded_rollout(order: Order, worked: Worked, score: Score) -> Rollout:
    """An attempt that was graded."""
    status = Status.SCORED if worked.attempt.limit is None else Status.LIMIT
    return _rollout(order, worked, status, score)


def ungraded_rollout(order: Order, worked: Worked, fault: str = "") -> Rollout:
    """An attempt with an ending of its own, or whose grader has the ``fault``."""
    status = {
        "done": Status.GRADER_ERROR,
        "refused": Status.REFUSED,
        "agent_error": Status.AGENT_ERROR,
    }[worked.ending]
    answer = "" if worked.ending == "refused" else worked.attempt.response
    return _rollout(order, worked, status, Score(0.0, 0.0, fault or worked.reason, answer))


def failed_rollout(order: Order, status: Status, reason: str, retries: int) -> Rollout:
    """An attempt of which nothing is left; ``retries`` were made in vain."""
    return Rollout(
        task_id=order.task.id,
        status=status,
        hard=0.0,
        soft=0.0,
        reason=reason,
        answer="",
        messages=order.task.messages,
        task_type=order.task.task_type,
        attempt=order.attempt,
        retries=retries,
    )


def _rollout(order: Order, worked: Worked, status: Status, score: Score) -> Rollout:
    attempt = worked.attempt
    return Rollout(
        task_id=order.task.id,
        status=status,
        hard=score.hard,
        soft=score.soft,
        reason=score.reason,
        answer=score.answer,
        messages=attempt.messages,
        task_type=order.task.task_type,
        n_turns=attempt.n_turns,
        attempt=order.attempt,
        trace=attempt.trace,
        limit=attempt.limit,
        usage=attempt.usage,
        progress=worked.progress,
    )

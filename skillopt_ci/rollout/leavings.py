"""What an agent leaves behind on its computer: whether it is a submission, and how it is taken."""

from dataclasses import replace

from skillopt_ci.computer.computer import Computer, FileRefused
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.rollout.places import Places, ended
from skillopt_ci.rollout.work import Worked
from skillopt_ci.tasks.task import Task

#: Most that is kept of what an agent leaves behind.
ARTIFACT_BYTES = 100_000_000


async def submission_fault(
    places: Places, task: Task, limits: AttemptLimits, computer: Computer
) -> str | None:
    """Why there is no valid submission yet; None if there is one, or none is asked for."""
    submission = places.block(task).submission
    if submission is None:
        return None
    result = await computer.run(submission.command, timeout=limits.grading_seconds)
    if not result.exit_code and not result.timed_out:
        return None
    return submission.message or (
        f"There is no valid submission yet: the check {ended(result, limits.grading_seconds)}"
    )


async def with_artifacts(worked: Worked, places: Places, task: Task, computer: Computer) -> Worked:
    """Return the work with what it left behind; more than can be taken is the agent's own error."""
    if worked.attempt.artifacts:
        return worked
    paths = places.block(task).artifacts
    try:
        artifacts = await computer.export(paths, max_bytes=ARTIFACT_BYTES)
    except FileRefused as error:
        reason = f"What it left behind cannot be taken: {error.message}"
        return worked if worked.reason else replace(worked, ending="agent_error", reason=reason)
    return replace(worked, attempt=replace(worked.attempt, artifacts=artifacts))

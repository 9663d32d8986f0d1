"""What a command's end means for the job: its status, and the words on the run's page."""

from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.action.workflow_commands import JobLog, Level
from skillopt_ci.cli.main import Failure
from skillopt_ci.errors import ExitCode, LocatedError
from skillopt_ci.sanitize import harmless


@dataclass(frozen=True, slots=True)
class Meaning:
    """``result`` is the output of that name, ``level`` how loudly the job says it."""

    result: str
    level: Level
    title: str
    job_fails: bool = False


_MEANINGS = {
    ExitCode.DONE: Meaning("done", "notice", "Done"),
    ExitCode.NOTHING_TO_DO: Meaning("nothing-to-do", "notice", "Nothing left to do"),
    # Neither of them is a verdict on the skill, and a red job would be read as one.
    ExitCode.BUDGET: Meaning("inconclusive", "warning", "Inconclusive: a budget was reached"),
    ExitCode.LOST_RACE: Meaning("superseded", "notice", "Another run was first"),
    ExitCode.INFRASTRUCTURE: Meaning(
        "failed", "error", "Infrastructure failed: nothing was scored", job_fails=True
    ),
    ExitCode.INTERRUPTED: Meaning("failed", "warning", "Interrupted", job_fails=True),
    ExitCode.USAGE: Meaning("failed", "error", "skillopt-ci cannot start", job_fails=True),
}
_DEFECT = Meaning("failed", "error", "A defect of skillopt-ci", job_fails=True)


def meaning(exit_code: int) -> Meaning:
    """What an exit code of the command line means for a job."""
    return next((found for code, found in _MEANINGS.items() if code == exit_code), _DEFECT)


def announce(log: JobLog, failure: Failure, error: BaseException, workspace: Path) -> None:
    """Put what ended a command on the run's page, at the file and line that it points at."""
    found = meaning(failure.exit_code)
    file, line = _place(error, workspace)
    text = harmless(f"{failure.message}\n{failure.hint}".strip())
    log.annotate(found.level, text, title=found.title, file=file, line=line)


def _place(error: BaseException, workspace: Path) -> tuple[Path | None, int | None]:
    if not isinstance(error, LocatedError) or error.file is None:
        return None, None
    file = (workspace / error.file).resolve()
    if not file.is_relative_to(workspace.resolve()):
        return None, None
    return file.relative_to(workspace.resolve()), error.line

"""A job of the runner, with all that its activities need."""

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO, cast

from skillopt_ci.action.event import Evaluate
from skillopt_ci.action.git_access import repositories
from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.action.outputs import JobLog, Level, Outputs, Result, Runner
from skillopt_ci.cli.main import Failure, describe, invoke
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import ExitCode, LocatedError
from skillopt_ci.github.client import Client
from skillopt_ci.redaction import RedactedStream, Redactor
from skillopt_ci.sanitize import harmless


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands on GitHub after something was published; ``report`` is the comment's text.

    ``notes`` say what GitHub would not do, such as the permission that it takes.
    """

    report: str = ""
    pull_request: int | None = None
    notes: tuple[str, ...] = ()
    outputs: Outputs | None = None
    """The outputs of an evaluation."""
    exit_code: int = 0


class Publisher(Protocol):
    """Shows a run on GitHub."""

    def publish(self, settings: Globals, inconclusive: str) -> Shown:
        """Show the run as its git record says, and why the job had no verdict, if it had none."""


class Reviewer(Protocol):
    """Reviews what people propose and ask for on pull requests."""

    def requested(self, comment: str) -> str:
        """Return the word after `/skillopt` in a comment; empty if it holds no command."""

    def evaluate(self, settings: Globals, pull: Evaluate) -> Shown:
        """Compare a pull request's skill with its base, and show what came of it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One start of the action. Without a token there is no client, and nothing that needs one."""

    runner: Runner
    inputs: Inputs
    log: JobLog
    environ: Mapping[str, str] = field(repr=False)
    client: Client | None = None
    publisher: Publisher | None = None
    reviewer: Reviewer | None = None
    redact: Redactor = field(default_factory=Redactor, repr=False)

    @property
    def folder(self) -> Path:
        """The folder that the command runs in."""
        return self.runner.workspace / self.inputs.directory

    @property
    def keep(self) -> Path:
        """Where files for later steps of the job are left: no checkout shows it."""
        return repositories(self.runner.workspace, self.folder)[-1] / ".git" / "skillopt-ci"

    @property
    def settings(self) -> Globals:
        """The command line's globals."""
        return Globals(
            environ=self.environ,
            cwd=self.folder,
            config=Path(self.inputs.config),
            overrides=self.inputs.overrides,
            run=self.inputs.run or None,
            verbosity=int(self.runner.debug),
            redact=self.redact,
        )


# Run a command of the command line inside of a job: its results as values, its talk in the log.

#: What a `rollout` job leaves behind, beside the report.
ANSWERS = "answers.jsonl"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: the objects that it printed, and what it died of, if it did."""

    exit_code: int
    results: tuple[Result, ...] = ()
    failure: Failure | None = None
    error: BaseException | None = field(default=None, repr=False)


def words(
    command: Command, inputs: Inputs, keep: Path, rollouts: tuple[str, ...] = ()
) -> list[str]:
    """The command line that does what the inputs ask for.

    ``keep`` is the folder in which `rollout` leaves what it paid for and `report` its page,
    ``rollouts`` what `step` and `propose` begin with.
    """
    overrides = [word for key in inputs.overrides for word in ("--override", key)]
    taken = [word for file in rollouts for word in ("--rollouts", file)]
    options: dict[Command, list[str]] = {
        Command.STEP: taken,
        Command.PROPOSE: ["--until-candidate", *taken],
        Command.EVAL: ["--split", inputs.split],
        Command.PLAN: ["--shards", str(inputs.shards)],
        Command.ROLLOUT: ["--shard", inputs.shard, "--output", str(keep / ANSWERS)],
        Command.REPORT: ["--output", str(keep / page_name(inputs))],
    }
    run = ["--run", inputs.run] if inputs.run else []
    common = ["--config", inputs.config, *run, *overrides, "--json"]
    return [command.verb, *common, *options.get(command, [])]


def execute(
    line: list[str], settings: Globals, log: JobLog, on_result: Callable[[Result], None]
) -> Ended:
    """Run ``line``; ``on_result`` gets each object as soon as it is printed.

    Nothing that the command says on the way can be taken for a workflow command.
    """
    results: list[Result] = []

    def take(result: Result) -> None:
        results.append(result)
        on_result(result)

    with log.group(f"skillopt-ci {line[0]}"), log.untrusted() as stream:
        try:
            objects, talk = _redacted(_Objects(take), settings), _redacted(stream, settings)
            with redirect_stdout(objects), redirect_stderr(talk):
                code = invoke(line, settings)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told by the caller
            failure = describe(error, line, settings.environ, settings.redact)
            stream.write(f"{harmless(failure.message)}\n{harmless(failure.hint)}\n")
            return Ended(failure.exit_code, tuple(results), failure, error)
    return Ended(code, tuple(results))


def _redacted(stream: TextIO | io.TextIOBase, settings: Globals) -> RedactedStream:
    return RedactedStream(cast("TextIO", stream), settings.redact)


def page_name(inputs: Inputs) -> str:
    """The name of the run's page: it is that of the artifact too, so each run has its own."""
    return f"skillopt-report-{inputs.run}.html" if inputs.run else "skillopt-report.html"


class _Objects(io.TextIOBase):
    """Standard output of a command that prints one JSON object a line."""

    def __init__(self, take: Callable[[Result], None]) -> None:
        self._take = take
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            self._take(json.loads(line))
        return len(text)


# What a command's end means for the job: its status, and the words on the run's page.


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

"""A job of the runner: its environment, the command run in it, and the meaning of its end."""

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from glob import glob
from pathlib import Path
from typing import NamedTuple, TextIO, cast

from skillopt_ci.action.git_access import repositories
from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.action.outputs import JobLog, Level, Outputs, Printed
from skillopt_ci.cli.build import load_configured
from skillopt_ci.cli.main import Failure, describe, invoke
from skillopt_ci.cli.options import Globals
from skillopt_ci.config.loading import Loaded, run_names
from skillopt_ci.errors import ExitCode, LocatedError, SkilloptError, UsageError
from skillopt_ci.github.client import Client
from skillopt_ci.redaction import RedactedStream, Redactor
from skillopt_ci.report.markdown import inline, inline_lines, join
from skillopt_ci.sanitize import harmless


def workspace_of(environ: Mapping[str, str]) -> Path:
    """The runner's folder. Raises UsageError, which names the missing variables of a job."""
    needed = ("GITHUB_WORKSPACE", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_REPOSITORY")
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise UsageError(
            f"this is not a job of a GitHub runner: {', '.join(missing)} not set",
            hint="Elsewhere, call the command line: `skillopt-ci --help`.",
        )
    return Path(environ["GITHUB_WORKSPACE"])


@dataclass(frozen=True)
class Job:
    """One run of the action. Without a token, ``client`` is None."""

    workspace: Path
    inputs: Inputs
    log: JobLog
    environ: Mapping[str, str] = field(repr=False)
    client: Client | None = None
    redact: Redactor = field(default_factory=Redactor, repr=False)

    @property
    def folder(self) -> Path:
        return self.workspace / self.inputs.directory

    @property
    def keep(self) -> Path:
        """The folder of files for later steps of the job, which git ignores."""
        places = [one / ".git" for one in repositories(self.workspace, self.folder)]
        # a submodule or a linked worktree has a file of this name
        return next(filter(Path.is_dir, reversed(places)), places[-1]) / "skillopt-ci"

    @property
    def rollouts(self) -> dict[str, list[str]]:
        """The files that each pattern of the input `rollouts` matches."""
        # unlike a path's own glob, this takes absolute patterns
        files = partial(glob, root_dir=self.workspace, recursive=True, include_hidden=True)
        return {
            one: [str(self.workspace / file) for file in files(one)] for one in self.inputs.rollouts
        }

    @property
    def run(self) -> str:
        """Empty if the configuration has errors and the job names none of its runs."""
        if self.configured is not None:
            return self.configured.config.run
        with suppress(SkilloptError):
            if self.inputs.run not in run_names(self.settings.config_file):
                return ""
        return self.inputs.run

    @property
    def page(self) -> Path:
        """The report's path; the artifact is called like the file, so each run has its own."""
        run = self.inputs.run or (self.run if self.inputs.config != Inputs().config else "")
        return self.keep / (f"skillopt-report-{run}.html" if run else "skillopt-report.html")

    @property
    def settings(self) -> Globals:
        return Globals(
            environ=self.environ,
            cwd=self.folder,
            config=Path(self.inputs.config),
            overrides=self.inputs.overrides,
            run=self.inputs.run or None,
            verbosity=int(self.environ.get("RUNNER_DEBUG") == "1"),
            redact=self.redact,
        )

    @cached_property
    def configured(self) -> Loaded | None:
        """The configuration; None if it has errors, which the command will report."""
        try:
            return load_configured(self.settings)
        except SkilloptError:
            return None


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The report is Markdown; ``notes`` say what GitHub refused, and why.

    ``ending`` says above the report, in the job's summary, why the command did no more.
    """

    outputs: Outputs = field(default_factory=Outputs)
    report: str = ""
    exit_code: int = 0
    notes: tuple[str, ...] = ()
    ending: str = ""


def command_line(job: Job, command: Command) -> list[str]:
    inputs, files = job.inputs, {file for found in job.rollouts.values() for file in found}
    taken = [word for file in sorted(files) for word in ("--rollouts", file)]
    options: dict[Command, list[str]] = {
        Command.STEP: taken,
        Command.PROPOSE: ["--until-candidate", *taken],
        Command.EVAL: ["--split", inputs.split],
        Command.PLAN: ["--shards", str(inputs.shards)],
        Command.ROLLOUT: ["--shard", inputs.shard, "--output", str(job.keep / "answers.jsonl")],
        Command.REPORT: ["--output", str(job.page)],
    }
    run = ["--run", inputs.run] if inputs.run else []
    overrides = [word for key in inputs.overrides for word in ("--override", key)]
    common = ["--config", inputs.config, *run, *overrides, "--json"]
    return ["step" if command is Command.PROPOSE else command, *common, *options.get(command, [])]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: the objects that it printed, and its exception, if any."""

    exit_code: int = 0
    results: tuple[Printed, ...] = ()
    failure: Failure | None = None
    error: BaseException | None = field(default=None, repr=False)

    @property
    def told(self) -> str:
        """Markdown that says how it ended and what to do; a crash report stays in the log."""
        title, failure = f"**{meaning(self.exit_code).title}.**", self.failure
        if failure is None:
            why = [one["error"]["message"] for one in self.results if "error" in one]
            return f"**{inline(why[-1], 1_000)}**" if why else title
        defect = self.exit_code == ExitCode.DEFECT
        hint = "Please report the job's log." if defect else inline(failure.hint, 1_000)
        return join(f"{title} {inline_lines(failure.message, 1_000)}", hint)


def execute(
    job: Job, line: list[str], on_result: Callable[[Printed], object] = lambda _: None
) -> Ended:
    """Run a command line in the job; ``on_result`` gets each object as it is printed."""
    results = _Results(on_result)
    with job.log.untrusted(f"skillopt-ci {line[0]}") as stream:
        try:
            objects = RedactedStream(cast("TextIO", results), job.redact)
            with redirect_stdout(objects), redirect_stderr(RedactedStream(stream, job.redact)):
                code = invoke(line, job.settings)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the caller reports it
            failure = describe(error, line, job.redact)
            stream.write(f"{harmless(failure.message)}\n{harmless(failure.hint)}\n")
            return Ended(failure.exit_code, tuple(results.all), failure, error)
    return Ended(code, tuple(results.all))


class _Results(io.TextIOBase):
    def __init__(self, on_result: Callable[[Printed], object]) -> None:
        self.all: list[Printed] = []
        self._on_result = on_result
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            result = json.loads(line)
            self.all.append(result)
            self._on_result(result)
        return len(text)


class Meaning(NamedTuple):
    """The meaning of an exit code: the output ``result``, and the level of the message."""

    result: str
    level: Level
    title: str

    @property
    def job_fails(self) -> bool:
        """Whether the job fails; other results do not, or people would read them as verdicts."""
        return self.result == "failed"


_MEANINGS: Mapping[int, Meaning] = {
    ExitCode.DONE: Meaning("done", "notice", "Done"),
    ExitCode.NOTHING_TO_DO: Meaning("nothing-to-do", "notice", "Nothing left to do"),
    ExitCode.BUDGET: Meaning("inconclusive", "warning", "Inconclusive: a budget was reached"),
    ExitCode.LOST_RACE: Meaning("superseded", "notice", "Another run was first"),
    ExitCode.INFRASTRUCTURE: Meaning("failed", "error", "Infrastructure failed"),
    ExitCode.INTERRUPTED: Meaning("failed", "warning", "Stopped"),
    ExitCode.USAGE: Meaning("failed", "error", "skillopt-ci cannot start"),
}


def meaning(exit_code: int) -> Meaning:
    return _MEANINGS.get(exit_code, Meaning("failed", "error", "A defect of skillopt-ci"))


def announce(log: JobLog, failure: Failure, error: BaseException, workspace: Path) -> None:
    """Annotate the run's page with the error that ended a command, at its file and line."""
    file = line = None
    if isinstance(error, LocatedError) and error.file is not None:
        place, root = (workspace / error.file).resolve(), workspace.resolve()
        if place.is_relative_to(root):
            file, line = place.relative_to(root), error.line
    found = meaning(failure.exit_code)
    text = harmless(f"{failure.message}\n{failure.hint}".strip())
    log.annotate(found.level, text, title=found.title, file=file, line=line)

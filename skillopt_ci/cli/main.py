"""The entry point: finds the command, and turns whatever ends it into an exit code."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from types import FrameType

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.failure import describe, tell
from skillopt_ci.cli.lazy import Lazy, LazyGroup
from skillopt_ci.confinement import close_process
from skillopt_ci.errors import ExitCode
from skillopt_ci.redaction import Redact, RedactedStream

#: Where each command stands, and its line of help.
COMMANDS = {
    "init": Lazy(
        "skillopt_ci.cli.init.command", "Write a configuration and example tasks to start from."
    ),
    "new-env": Lazy(
        "skillopt_ci.cli.new_env.command",
        "Write an environment to start from: tasks, grading, a test.",
    ),
    "quickstart": Lazy(
        "skillopt_ci.cli.quickstart.command",
        "See a whole training run in a minute, without any key or account.",
    ),
    "discover": Lazy(
        "skillopt_ci.cli.discover.command",
        "Find the skills of this repository, and the runs that train them.",
    ),
    "validate": Lazy(
        "skillopt_ci.cli.validate.command",
        "Check configuration, tasks, skill and repository; call no model.",
    ),
    "doctor": Lazy(
        "skillopt_ci.cli.doctor.command",
        "Ask models, tools and prices whether they are ready; change nothing.",
    ),
    "estimate": Lazy(
        "skillopt_ci.cli.estimate.command",
        "Say what a step, an epoch and the run will call and cost.",
    ),
    "step": Lazy(
        "skillopt_ci.cli.step.command", "Do one training step, or go on with the one in flight."
    ),
    "run": Lazy("skillopt_ci.cli.run.command", "Do the steps that are left, up to a budget."),
    "plan": Lazy(
        "skillopt_ci.cli.plan.command", "Say which attempts come next, shared out over machines."
    ),
    "rollout": Lazy(
        "skillopt_ci.cli.rollout.command",
        "Make one machine's share of the attempts that come next.",
    ),
    "finish": Lazy(
        "skillopt_ci.cli.finish.command",
        "End the run: validate and test the skills, and sum it up.",
    ),
    "slow-update": Lazy(
        "skillopt_ci.cli.slow_update.command",
        "Do the end of an epoch, if one is due: guidance and notes (epoch-end).",
    ),
    "eval": Lazy("skillopt_ci.cli.eval.command", "Measure a skill on one of the splits."),
    "trace": Lazy(
        "skillopt_ci.cli.trace.command", "Show how an attempt at a task went, step by step."
    ),
    "rescore": Lazy(
        "skillopt_ci.cli.rescore.command",
        "Grade the attempts that were made with the scorer as it is now.",
    ),
    "calibrate": Lazy(
        "skillopt_ci.cli.calibrate.command",
        "Say how often the gate errs on your tasks, and what it needs.",
    ),
    "status": Lazy("skillopt_ci.cli.status.command", "Say where training stands."),
    "log": Lazy("skillopt_ci.cli.log.command", "List the steps of the run."),
    "diff": Lazy(
        "skillopt_ci.cli.diff.command",
        "Show what changed in the skill between two of its versions.",
    ),
    "show": Lazy("skillopt_ci.cli.show.command", "Show one step: results, edits, gate arithmetic."),
    "comment": Lazy(
        "skillopt_ci.cli.comment.command",
        "Print what the pull request's comment says, or publish it.",
    ),
    "best": Lazy("skillopt_ci.cli.best.command", "Print or write the best skill so far."),
    "report": Lazy(
        "skillopt_ci.cli.report.command",
        "Write an HTML page that shows what was learned, or serve it live.",
    ),
    "export": Lazy("skillopt_ci.cli.export.command", "Write the run as another program's files."),
    "config": Lazy(
        "skillopt_ci.cli.config.command", "Print the effective configuration, or its JSON Schema."
    ),
    "simulate": Lazy("skillopt_ci.cli.simulate.command", "Serve a simulated model over HTTP."),
}

CLOSED_PIPE = 128 + signal.SIGPIPE


@click.group(
    cls=LazyGroup,
    commands_by_name=COMMANDS,
    aliases={"epoch-end": "slow-update"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog="Exit codes: 0 done, 1 a defect of skillopt-ci, 2 usage, 3 nothing left to do, "
    "4 budget reached, 5 infrastructure failed, 6 another run was first, 130 interrupted.",
)
@global_options
@click.pass_context
def cli(ctx: click.Context, settings: Globals) -> None:
    """Train an agent skill in its own repository: every step a commit, every change gated."""
    del settings
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(ExitCode.USAGE)


def main(args: Sequence[str] | None = None, group: click.Group = cli) -> int:
    """Run the command line ``args`` (the process's own by default); return the exit code."""
    if args is None:
        close_process()
    words = list(sys.argv[1:] if args is None else args)
    settings = Globals.of_process()
    with redacted_streams(settings.redact):
        try:
            with terminate_is_interrupt():
                return invoke(words, settings, group)
        except BrokenPipeError:
            _abandon_stdout()
            return CLOSED_PIPE
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost layer
            return _report(error, words, settings)


def invoke(words: list[str], settings: Globals, group: click.Group = cli) -> int:
    """Run a command line and return its exit code; whatever ends it otherwise is raised."""
    try:
        with group.make_context("skillopt-ci", words.copy(), obj=settings) as ctx:
            result = group.invoke(ctx)
    except click.exceptions.Exit as done:
        result = done.exit_code
    sys.stdout.flush()
    return int(result or ExitCode.DONE)


def _report(error: BaseException, words: list[str], settings: Globals) -> int:
    failure = describe(error, words, settings.environ, settings.redact)
    try:
        # not from the parsed options: they may be what is wrong
        tell(failure, as_json="--json" in words, environ=settings.environ)
    except BrokenPipeError:
        _abandon_stdout()
    return failure.exit_code


@contextmanager
def redacted_streams(redact: Redact) -> Iterator[None]:
    """Let nothing be written to the standard streams that ``redact`` would hide."""
    with ExitStack() as streams:
        if sys.stdout is not None:
            streams.enter_context(redirect_stdout(RedactedStream(sys.stdout, redact)))
        if sys.stderr is not None:
            streams.enter_context(redirect_stderr(RedactedStream(sys.stderr, redact)))
        yield


@contextmanager
def terminate_is_interrupt() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that a cancelled CI job ends as cleanly."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        on_interrupt = signal.getsignal(signal.SIGINT)
        if not callable(on_interrupt):
            raise KeyboardInterrupt
        on_interrupt(number, frame)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _abandon_stdout() -> None:
    """Point standard output nowhere, so that the interpreter's last flush cannot complain."""
    sys.stdout = open("/dev/null", "w", encoding="utf-8")  # noqa: PTH123, SIM115

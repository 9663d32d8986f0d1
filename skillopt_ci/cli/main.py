"""The entry point: finds the command, and turns whatever ends it into an exit code."""

import errno
import io
import os
import platform
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import cast

import click
from click.shell_completion import CompletionItem, shell_complete

from skillopt_ci import __version__
from skillopt_ci.cli.options import Globals, command, print_json, wants_colour, wrapped
from skillopt_ci.confinement import close_process, whole_environment
from skillopt_ci.errors import ExitCode, SkilloptError, UsageError
from skillopt_ci.redaction import Redact, RedactedStream, Redactor, named_secrets, unchanged
from skillopt_ci.sanitize import harmless
from skillopt_ci.util import allow_open_files, lasting_import, nearest

#: The variable by which a shell asks for completions.
_COMPLETION = "_SKILLOPT_CI_COMPLETE"


class LazyGroup(click.Group):
    """The group of :data:`COMMANDS`, each imported when asked for; ``--help`` imports none."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module = lasting_import(COMMANDS[cmd_name][0])
            return cast("click.Command", getattr(module, f"{cmd_name.replace('-', '_')}_command"))
        if not (ctx.resilient_parsing or cmd_name.startswith("-")):
            ctx.fail(f"there is no command {cmd_name!r}. {nearest(cmd_name, COMMANDS)}".rstrip())
        return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(name, help=line)
            for name, (_, line, _) in COMMANDS.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in dict.fromkeys(group for _, _, group in COMMANDS.values()):
            with formatter.section(group):
                formatter.write_dl(
                    [(name, line) for name, (_, line, own) in COMMANDS.items() if own == group]
                )


#: Keys that no variable or configuration names, by their shape.
_SECRET_TEXT = re.compile(
    r"""\b(?:sk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z])[-_][\w.-]{8,}  # keys by their prefix
    | (?<=Bearer\s)[^\s'"]+                                             # HTTP authorisation
    | (?<=://)[^\s/@'"]+(?=@)                                            # user:password@host""",
    re.VERBOSE,
)


def crash_report(error: BaseException, words: list[str], redact: Redact = unchanged) -> str:
    """All that a maintainer needs to know of ``error``, which ended the command line ``words``."""
    facts = [
        f"skillopt-ci {__version__}, Python {sys.version} on {platform.platform()}",
        f"command: skillopt-ci {' '.join(words)}",
        "",
        *traceback.format_exception(error),
    ]
    return _SECRET_TEXT.sub("<redacted>", redact("\n".join(facts)))


# How a command that failed says so: one message, one hint, one exit code.
@dataclass(frozen=True, slots=True)
class Failure:
    kind: str
    message: str
    hint: str
    exit_code: ExitCode
    details: Mapping[str, object] = field(default_factory=dict)


#: Errors of the system that are rather a defect of ours.
_OURS = frozenset((None, errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL))


def describe(error: BaseException, words: list[str], redact: Redact = unchanged) -> Failure:
    """Put ``error`` into words; one that nobody foresaw is told in full."""
    match error:
        case SkilloptError():
            said = redact(error.message), redact(error.hint)
            return Failure(type(error).__name__, *said, error.exit_code, error.details)
        case click.ClickException():
            ctx = getattr(error, "ctx", None)
            hint = f"See `{ctx.command_path} --help`." if ctx is not None else ""
            # click calls the type of a number with limits an `integer range`
            message = re.sub(r"(integer|float) range\.$", r"\1.", error.format_message())
            return Failure("UsageError", message, hint, ExitCode.USAGE)
        case OSError() if error.errno not in _OURS:
            place = redact(str(error.filename or "standard output, or a file in TMPDIR or /tmp"))
            named = error.errno in (errno.ENAMETOOLONG, errno.ELOOP)
            code = ExitCode.USAGE if named else ExitCode.INFRASTRUCTURE
            hint = "Name another file." if named else "Fix that, then rerun."
            return Failure(type(error).__name__, f"{place}: {error.strerror}", hint, code)
        case FileNotFoundError(filename=None):  # tempfile found no folder that can be written
            hint = "Make room, or set TMPDIR to a folder that can be written."
            return Failure("NoTemporaryFolder", str(error.strerror), hint, ExitCode.INFRASTRUCTURE)
        case MemoryError() | RuntimeError(args=("can't start new thread",)):
            hint = "Allow more memory or processes, or make fewer calls at once, then rerun."
            return Failure("OutOfMemory", "out of memory or threads", hint, ExitCode.INFRASTRUCTURE)
        case click.Abort():  # at a question: only `init` asks, before it writes
            return Failure("Interrupted", "interrupted", "Nothing is saved.", ExitCode.INTERRUPTED)
        # pydantic wraps a Ctrl-C that strikes while it builds a schema in an error of its own
        case _ if isinstance(error, KeyboardInterrupt) or (
            type(error).__name__ == "SchemaError" and "KeyboardInterrupt" in str(error)
        ):
            hint = "What was done is saved; the same command resumes from there."
            return Failure("Interrupted", "interrupted", hint, ExitCode.INTERRUPTED)
    message = f"skillopt-ci itself failed ({type(error).__name__})"
    hint = "Please report it with this; it holds no secrets that we know of.\n\n"
    return Failure("Defect", message, hint + crash_report(error, words, redact), ExitCode.DEFECT)


def tell(failure: Failure, *, as_json: bool, environ: Mapping[str, str]) -> None:
    """Print ``failure``, also ``as_json``. Raises BrokenPipeError if nobody reads that any more."""
    colour = wants_colour(sys.stderr, environ)
    # that there is nothing to do is no error, though it ends the command
    nothing = failure.exit_code is ExitCode.NOTHING_TO_DO
    label, hue = ("stopped:", "yellow") if nothing else ("error:", "red")
    message = wrapped(f"{label} {harmless(failure.message)}", sys.stderr)
    click.echo(
        message.replace(label, click.style(label, fg=hue, bold=True), 1), err=True, color=colour
    )
    if failure.hint:
        click.secho(wrapped(harmless(failure.hint), sys.stderr), dim=True, err=True, color=colour)
    if as_json:
        error = {"type": failure.kind, "message": failure.message, "hint": failure.hint}
        print_json({"error": error, "exit_code": int(failure.exit_code), **failure.details})


#: The module of each command, its line of help and its group in `--help`.
COMMANDS = {
    name: (f"skillopt_ci.cli.{module}", help_line, group)
    for group, name, module, help_line in (
        ("Start", "quickstart", "init", "Train the bundled example: seconds, free, no account."),
        ("Start", "init", "init", "Write a configuration and example tasks."),
        ("Start", "import", "import_tasks", "Make tasks from evals.json, OpenAI Evals, CSV, JSON."),
        ("Start", "check", "check", "Check that everything is ready, and say what to fix."),
        ("Start", "estimate", "train", "Estimate calls and cost of a step and of the run."),
        ("Train", "step", "train", "Do one training step, or resume an interrupted one."),
        ("Train", "run", "train", "Do all remaining steps, or as many as the budget allows."),
        ("Train", "revert", "train", "Take back a merged step, or a rule; training remembers it."),
        ("Read", "status", "show", "Show where training stands and what comes next."),
        ("Read", "report", "report", "Write an HTML page that shows what was learned."),
        ("Read", "diff", "show", "Show what changed between two versions of the skill."),
        ("Read", "eval", "evaluate", "Evaluate a skill on a split, or compare two."),
        ("Read", "log", "show", "List the steps of the run."),
        ("Read", "show", "show", "Show a step: results, edits, gate arithmetic."),
        ("Read", "best", "show", "Print the best skill so far, or write it to a file."),
        ("Read", "trace", "evaluate", "Show an attempt at a task, step by step."),
        ("CI", "comment", "comment", "Print the pull request and its comment, or publish them."),
        ("CI", "discover", "config", "List the skills here and the runs that train them."),
        ("CI", "plan", "train", "Split the next attempts for several machines."),
        ("CI", "rollout", "train", "Make one machine's share of the next attempts."),
        ("Advanced", "replay", "show", "Recompute every verdict from the recorded scores."),
        ("Advanced", "calibrate", "evaluate", "Estimate how often the gate errs on your tasks."),
        ("Advanced", "rescore", "evaluate", "Grade recorded attempts with the current scorer."),
        ("Advanced", "finish", "train", "Test the skills and summarize the run (`run` does it)."),
        ("Advanced", "slow-update", "train", "Do a due slow update (`step` and `run` do it)."),
        ("Advanced", "new-env", "init", "Write an environment: tasks, grading, a test."),
        ("Advanced", "export", "report", "Export the run in SkillOpt's layout."),
        ("Advanced", "config", "config", "Print the effective configuration, or its JSON Schema."),
    )
}


@command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog="Exit codes: 0 done, 1 a defect of skillopt-ci, 2 usage, 3 nothing left to do, "
    "4 budget reached, 5 infrastructure failed, 6 another run was first, 130 interrupted.",
)
@click.pass_context
def cli(ctx: click.Context, _settings: Globals) -> None:
    """Train an agent skill in its own repository: every step a commit, every change gated."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(ExitCode.USAGE)


#: How a stream treats characters that its encoding lacks; the latter in a C locale.
_REFUSING = ("strict", "surrogateescape")


def main(args: Sequence[str] | None = None, group: click.Group = cli) -> int:
    """Run the command line ``args`` (the process's own by default); return the exit code."""
    if args is None:
        close_process()
        allow_open_files()
    # Make the standard streams writable: none refuses a character, and none is closed, or its
    # number would go to the next file, and that to programs that we start.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in _REFUSING:
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if args is None else args)
    try:
        environ = whole_environment()
        settings = Globals(environ, Path.cwd(), redact=Redactor(named_secrets(environ)))
    except FileNotFoundError:
        gone = UsageError("this folder no longer exists", hint="Change to another one.")
        tell(describe(gone, words), as_json="--json" in words, environ=os.environ)
        return ExitCode.USAGE
    if shell := settings.environ.get(_COMPLETION):
        return shell_complete(group, {"obj": settings}, "skillopt-ci", _COMPLETION, shell)
    with (
        redirect_stdout(RedactedStream(sys.stdout, settings.redact)),
        redirect_stderr(RedactedStream(sys.stderr, settings.redact)),
    ):
        try:
            with terminate_is_interrupt():
                return invoke(words, settings, group)
        except BrokenPipeError:
            _abandon_stdout()
            return ExitCode.CLOSED_PIPE
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost layer
            failure = describe(error, words, settings.redact)
            try:
                # not from the parsed options: they may be what is wrong
                tell(failure, as_json="--json" in words, environ=settings.environ)
                sys.stdout.flush()
            except OSError:
                _abandon_stdout()
            return failure.exit_code


def invoke(words: list[str], settings: Globals, group: click.Group = cli) -> int:
    """Run a command line and return its exit code; whatever ends it otherwise is raised."""
    try:
        with group.make_context("skillopt-ci", words.copy(), obj=settings) as ctx:
            result = group.invoke(ctx)
    except click.exceptions.Exit as done:
        result = done.exit_code
    sys.stdout.flush()
    return int(result or ExitCode.DONE)


@contextmanager
def terminate_is_interrupt() -> Iterator[None]:
    """Let SIGTERM (of a cancelled CI job) and SIGHUP (of a closed terminal) do what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        on_interrupt = signal.getsignal(signal.SIGINT)
        if not callable(on_interrupt):
            raise KeyboardInterrupt
        on_interrupt(number, frame)

    # A background job ignores Ctrl-C. It still does, but has a handler for asyncio to replace with
    # one that cancels: an exception raised wherever a signal strikes may be lost in a callback.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    previous = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup ignores SIGHUP
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _abandon_stdout() -> None:
    """Point standard output nowhere, so that the interpreter's last flush cannot complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(io.UnsupportedOperation):  # no file: a test's own stream
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

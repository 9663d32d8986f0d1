"""Do what was decided, and say what came of it."""

from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace

from skillopt_ci.action.event import Acknowledge, Activity, Comment, Evaluate, Nothing, Perform
from skillopt_ci.action.inputs import Command
from skillopt_ci.action.job import Ended, Job, Shown, announce, execute, meaning, page_name, words
from skillopt_ci.action.outputs import Outputs, Result, fold
from skillopt_ci.action.publish import leave_notes
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.github.comments import react
from skillopt_ci.github.types import CommentRef, Reaction
from skillopt_ci.sanitize import harmless, one_line

#: What reviewers said, for the next step.
NOTES = "notes.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the job hands back: outputs, the report in Markdown, and its exit status."""

    outputs: Outputs
    report: str = ""
    exit_code: int = 0


def perform(job: Job, activity: Activity) -> Outcome:
    """Do ``activity``. Raises UsageError if it needs a token and there is none."""
    match activity:
        case Nothing(reason, refused):
            if refused is not None:
                _react(job, refused, "-1")
            return _skipped(job, reason)
        case Acknowledge(comment):
            _react(job, comment, "eyes")
            return _skipped(job, "the note is read by the next training step")
        case Evaluate(comment=comment):
            return _acknowledged(job, comment, lambda: _evaluate(job, activity))
        case Perform(command, comment):
            return _acknowledged(job, comment, lambda: _command(job, command))


def _skipped(job: Job, reason: str) -> Outcome:
    text = one_line(reason, 500)
    job.log.annotate("notice", text, title="skillopt-ci did nothing")
    return Outcome(Outputs(result="skipped"), f"**skillopt-ci did nothing:** {text}\n")


def _acknowledged(job: Job, comment: Comment | None, work: Callable[[], Outcome]) -> Outcome:
    if comment is None:
        return work()
    _react(job, comment, "eyes")
    outcome = work()
    _react(job, comment, "confused" if outcome.exit_code else "rocket")
    return outcome


def _react(job: Job, comment: Comment, reaction: Reaction) -> None:
    # a reaction is a courtesy: no job fails for want of it
    with suppress(SkilloptError):
        if job.client is not None:
            react(job.client, CommentRef("issue", comment.id), reaction)


def _command(job: Job, command: Command) -> Outcome:
    shown: list[Shown] = []

    def on_result(result: Result) -> None:
        if command.trains and "commit" in result:
            shown.append(_published(job, ""))

    ended = _run(job, command, on_result)
    found = meaning(ended.exit_code)
    if ended.failure is not None and ended.error is not None:
        announce(job.log, ended.failure, ended.error, job.runner.workspace)
    if command is Command.COMMENT or (command.trains and (ended.failure or not shown)):
        shown.append(_published(job, found.title if ended.failure else ""))
    page = _page(job, command, ended)
    outputs = replace(fold(ended.results), result=found.result, page=page)
    last = shown[-1] if shown else Shown()
    shows = replace(last, report=last.report or _report(ended, outputs))
    return _outcome(job, shows, outputs, ended.exit_code if found.job_fails else 0)


def _report(ended: Ended, outputs: Outputs) -> str:
    """What the summary says where nothing was published."""
    text = "" if ended.failure is None else one_line(ended.failure.message, 1_000)
    rows = [f"| {name} | `{value}` |" for name, value in outputs.by_name().items() if value]
    title = f"**{meaning(ended.exit_code).title}.** {text}".rstrip()
    return "\n".join([title, "", "| output | value |", "| --- | --- |", *rows, ""])


def _run(job: Job, command: Command, on_result: Callable[[Result], None]) -> Ended:
    if command is Command.COMMENT:
        return Ended(0)
    line = words(command, job.inputs, job.keep, _rollout_files(job))
    return execute([*line, *_notes(job, command)], job.settings, job.log, on_result)


def _page(job: Job, command: Command, ended: Ended) -> str:
    """Leave the run as a page; return its path, empty if there is none: no job fails for that."""
    if not command.shows or not job.keep.parent.is_dir():
        return ""
    if command is not Command.REPORT:
        line = words(Command.REPORT, job.inputs, job.keep)
        ended = execute(line, job.settings, job.log, _ignore)
    file = job.keep / page_name(job.inputs)
    if ended.failure is not None or not file.is_file():
        return ""
    return file.relative_to(job.runner.workspace).as_posix()


def _ignore(result: Result) -> None:
    del result


def _notes(job: Job, command: Command) -> list[str]:
    """The option that hands over what reviewers said; without it they wait for the next step."""
    if job.client is None or not command.steps:
        return []
    file = job.keep / NOTES
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return ["--notes", str(file)] if leave_notes(job.settings, job.client, file) else []
    except SkilloptError as error:
        text = harmless(str(error))
        job.log.annotate("warning", text, title="What reviewers said could not be read")
        return []


def _rollout_files(job: Job) -> tuple[str, ...]:
    workspace = job.runner.workspace
    found = (file for pattern in job.inputs.rollouts for file in workspace.glob(pattern))
    return tuple(sorted(str(file) for file in set(found)))


def _evaluate(job: Job, activity: Evaluate) -> Outcome:
    if job.reviewer is None:
        raise UsageError("evaluating a pull request needs `token`")
    _require_base(job, activity)
    title = f"skillopt-ci eval of pull request #{activity.number}"
    with (
        job.log.group(title),
        job.log.untrusted() as stream,
        redirect_stderr(stream),
        redirect_stdout(stream),
    ):
        shown = job.reviewer.evaluate(job.settings, activity)
    found = meaning(shown.exit_code)
    outputs = replace(shown.outputs or Outputs(), result=found.result)
    return _outcome(job, shown, outputs, shown.exit_code if found.job_fails else 0)


def _require_base(job: Job, pull: Evaluate) -> None:
    """Refuse to take configuration, tasks and scorers from the very change that they judge."""
    # the raw object: a shallow clone hides the parents of the merge that GitHub checks out
    commit = Git(job.folder).attempt("cat-file", "-p", "HEAD").text
    head = Git(job.folder).attempt("rev-parse", "HEAD").text
    if pull.head_sha is not None and (pull.head_sha == head or f"parent {pull.head_sha}" in commit):
        raise UsageError(
            f"the checkout has pull request #{pull.number} in it, and only base can judge it",
            hint="Check out with `ref: ${{ github.event.pull_request.base.sha }}`.",
        )


def _published(job: Job, inconclusive: str) -> Shown:
    """Publish, whatever comes of it: what was paid for is in git and can be published again."""
    if job.publisher is None:
        return Shown()
    try:
        return job.publisher.publish(job.settings, inconclusive)
    except SkilloptError as error:
        return Shown(notes=(str(error),))
    except Exception as error:  # noqa: BLE001 - see above; the note asks for a report
        return Shown(notes=(f"a defect of skillopt-ci: {type(error).__name__}: {error}",))


def _outcome(job: Job, shown: Shown, outputs: Outputs, exit_code: int) -> Outcome:
    for note in shown.notes:
        job.log.annotate("warning", harmless(note), title="Not everything could be published")
    number = "" if shown.pull_request is None else str(shown.pull_request)
    return Outcome(replace(outputs, pull_request=number), shown.report, exit_code)

"""Perform the chosen activity and report its outcome."""

from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path

from skillopt_ci.action.event import Activity, Conclude, Evaluate, Nothing, Perform, Reply, Request
from skillopt_ci.action.inputs import Command
from skillopt_ci.action.job import Ended, Job, JobOutcome, announce, command_line, execute, meaning
from skillopt_ci.action.outputs import UNPUBLISHED, Outputs, Printed, fold
from skillopt_ci.action.review import publish, review_pull_request
from skillopt_ci.cli import build
from skillopt_ci.cli.comment import Published, links_of, note_id, publish_run
from skillopt_ci.cli.read import RunReader, open_reader, view
from skillopt_ci.errors import ExitCode, InfrastructureError, SkilloptError, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.github.client import Client, Refused, noting
from skillopt_ci.github.comments import keep_comment, react, review_notes
from skillopt_ci.github.pull_requests import find_own, merge_pull_request, why_paused
from skillopt_ci.github.types import Reaction
from skillopt_ci.ledger.ledger import Ledger, base_commit
from skillopt_ci.report import markdown as md
from skillopt_ci.report.comment import event_line, footer, lessons_text, marker, results, title
from skillopt_ci.report.evaluation import unevaluated_check, untouched_comment
from skillopt_ci.report.view import RunView
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.training.review_comments import ReviewerNote, write_notes


def perform(job: Job, activity: Activity) -> JobOutcome:
    """Raises UsageError if ``activity`` needs a token and there is none."""
    if not (isinstance(activity, Nothing) or job.keep.parent.exists()):
        raise UsageError(
            f"there is no checkout in {job.folder}",
            hint="Let a step with actions/checkout run before this one; it needs git there.",
        )
    comment = None if isinstance(activity, Conclude) else activity.comment
    _react(job, comment, activity.reaction if isinstance(activity, Nothing) else "eyes")
    match activity:
        case Nothing(reason, answer=answer):
            outcome = _skipped(job, reason)
            if comment is not None and answer:
                outcome = _answer(job, comment, reason, outcome, by="answer")
        case Reply():
            outcome = _reply(job, activity)
        case Conclude():
            outcome = _conclude(job, activity)
        case Evaluate():
            outcome = _evaluate(job, activity)
        case Perform(command):
            outcome = _command(job, command)
            if comment is not None and outcome.outputs.result != "done":
                outcome = _answer(job, comment, outcome.ending or outcome.report, outcome)
    found = meaning(outcome.exit_code)
    if found.job_fails or not outcome.outputs.result:
        outcome = replace(outcome, outputs=replace(outcome.outputs, result=found.result))
    if comment is not None and outcome.outputs.result == "done" and not isinstance(activity, Reply):
        # an earlier attempt of this job may have answered that it failed
        outcome = _answer(job, comment, outcome.ending or "**Done.**", outcome, new=False)
    if not isinstance(activity, Nothing):
        _react(job, comment, "rocket" if outcome.outputs.result == "done" else "confused")
    for note in outcome.notes:
        job.log.annotate(
            "error" if found.job_fails else "warning", harmless(note), title=UNPUBLISHED
        )
    return outcome if found.job_fails else replace(outcome, exit_code=0)


def tell_failed(job: Job, comment: Request, ended: Ended) -> None:
    _react(job, comment, "confused")
    for note in _answer(job, comment, ended.told, JobOutcome(exit_code=ended.exit_code)).notes:
        job.log.annotate("warning", harmless(note), title=UNPUBLISHED)


def _skipped(job: Job, reason: str) -> JobOutcome:
    job.log.annotate("notice", harmless_line(reason), title="skillopt-ci did nothing")
    return JobOutcome(
        Outputs(result="skipped"), f"**skillopt-ci did nothing:** {md.inline(reason, 500)}\n"
    )


def _react(job: Job, comment: Request | None, reaction: Reaction) -> None:
    # A reaction is a courtesy: the job does not fail without it.
    with suppress(SkilloptError):
        if job.client is not None and comment is not None:
            react(job.client, comment.id, reaction)


def _answer(
    job: Job, comment: Request, text: str, outcome: JobOutcome, by: str = "", *, new: bool = True
) -> JobOutcome:
    # each run posts its own answer, unless ``by`` marks one that is the same for all runs
    named = f"Run {md.code(job.inputs.run)}:" if job.inputs.run and not by else ""
    if meaning(outcome.exit_code).job_fails:
        run = links_of(job.environ).run("this job") or "its job"
        text = md.join(text, f"To try again, write the command in a new comment or re-run {run}.")
    with noting(notes := list(outcome.notes)):
        if job.client is not None:
            first = marker(by or job.run or "answer", str(comment.id))
            keep_comment(job.client, comment.number, md.join(first, named, text), new=new)
    return replace(outcome, notes=tuple(notes))


def _reply(job: Job, asked: Reply) -> JobOutcome:
    """Reply to a comment; an error goes into the thread and does not fail the job."""
    comment, page, notes = asked.comment, "", tuple[str, ...]()
    try:
        reader = open_reader(job.settings, fresh=True)
        if comment.request == "report":
            page = _leave_page(job, Command.REPORT, execute(job, command_line(job, Command.REPORT)))
        if comment.request == "revert":
            text, notes = _revert(job, comment.said)
        elif comment.request == "apply":
            text = _apply(job, view(reader), asked)
        else:
            text = _told(reader, comment.request, links_of(job.environ), page=bool(page))
    except InfrastructureError:
        raise  # it may work when tried again
    except SkilloptError as error:
        text = md.inline_lines(job.redact(f"Nothing was done: {error}"), 2_000)
        return _answer(job, comment, text, _skipped(job, job.redact(error.sentences)))
    outcome = JobOutcome(Outputs(result="done", page=page), f"{text}\n", notes=notes)
    return _answer(job, comment, text, outcome)


def _told(reader: RunReader, word: str, links: md.Links, *, page: bool) -> str:
    run, path = view(reader), reader.skill_path
    if word == "diff":
        before = reader.ledger.read(base_commit(reader.ledger), path) or ""
        change = unified_diff(before, reader.folder.read(path) or "", path)
        text = md.block(change, "diff", lines=200) if change else "Nothing: base has this skill."
    elif word == "report":
        text = lessons_text(run, links) or "Nothing learned yet that base lacks."
        where = links.run("this job's run") if page else ""
        text = md.join(text, f"The page is an artifact of {where}." if where else "")
    else:
        text = md.join(event_line(run.history[-1]), results(run))
    return md.cut(md.join(f"### {md.code(run.skill_name)}: {word}", text, footer(run, links)))


def _revert(job: Job, what: str) -> tuple[str, tuple[str, ...]]:
    # `status` takes only the global options.
    ended = execute(job, ["revert", *command_line(job, Command.STATUS)[1:], "--", what])
    if ended.error is not None:
        raise ended.error
    notes = _publish(job).notes  # also what a stopped attempt of this job took back
    if ended.exit_code:  # no failure: the job may be run again after it took that back
        text = "\n".join(("Nothing of that is left in the skill.", *notes))
        return md.inline_lines(job.redact(text), 2_000), ()
    done = ended.results[-1]
    what = f"A rule of step {done['step']}" if done["edit"] else f"Step {done['step']}"
    where = links_of(job.environ).commit(done["commit"])
    return f"{what} is taken back in {where}. `step` or `run` scores the skill again.", notes


def _apply(job: Job, run: RunView, asked: Reply) -> str:
    number, options = asked.comment.number, build.load_configured(job.settings).config.github
    if job.client is None or asked.head_then is None:
        raise UsageError("GitHub does not say what this pull request's head was when you asked")
    if find_own(job.client, f"skillopt/{run.state.run}", run.base) != number:
        raise UsageError(f"#{number} is not the pull request of run '{run.state.run}'")
    if (run.state.provisional or run.unscored) and asked.comment.said != "anyway":
        why = "it was changed since it was scored" if run.unscored else run.claim
        raise UsageError(
            f"the skill is not confirmed by fresh attempts ({why})",
            hint="The next end of an epoch, or of the run, tests it. `/skillopt apply anyway` "
            "merges it as it is.",
        )
    merged = merge_pull_request(
        job.client, number, asked.head_then, options.merge_method, title(run)
    )
    return "Merged." if merged else "It is merged as soon as its checks allow that."


def _conclude(job: Job, asked: Conclude) -> JobOutcome:
    run, links = build.load_configured(job.settings).config.run, links_of(job.environ)
    check = unevaluated_check(
        run, asked.head_sha, asked.conclusion, asked.reason, links, again=asked.again
    )
    outcome, text = _skipped(job, asked.reason), untouched_comment(run, asked.reason, links)
    if job.client is None:
        return outcome
    return publish(job.client, check, outcome, asked.untouched, text)


def _command(job: Job, command: Command) -> JobOutcome:
    if command.works_for_training and (why := _paused(job)):
        matrix = '{"shard":[]}' if command is Command.PLAN else ""
        return replace(_skipped(job, why), outputs=Outputs(result="nothing-to-do", matrix=matrix))
    shown: list[Published] = []

    def on_result(result: Printed) -> None:
        if command.trains and "commit" in result:
            shown.append(_publish(job))
            try:
                why = _paused(job)
            except SkilloptError as error:
                why = error.sentences  # no failure: the step is done
            if why:
                raise _Paused(why)

    ended = Ended()
    if command in (Command.COMMENT, Command.REPORT, Command.STATUS):
        # A runner may have kept the checkout, and what it knew of the run. Errors are told below.
        with suppress(SkilloptError):
            open_reader(job.settings, fresh=True)
    _tell_missing_rollouts(job, command)
    if command is not Command.COMMENT:
        ended = execute(job, [*command_line(job, command), *_notes(job, command)], on_result)
    waits = ""
    if isinstance(ended.error, _Paused):
        job.log.annotate("notice", str(ended.error), title="Training waits")
        waits = f"**Training waits.** {md.inline(str(ended.error), 1_000)}"
        ended = Ended(results=ended.results)
    found = meaning(ended.exit_code)
    if (failed := ended.failure) is not None and ended.error is not None:
        announce(job.log, failed, ended.error, job.workspace)
    results = ended.results
    remarks = [one for each in results for one in each.get("findings", ()) if one["level"] != "ok"]
    problems = [text for each in results for text in each.get("problems", ())]
    remarks += [{"level": "error", "text": text, "part": "configuration"} for text in problems]
    for one in remarks:
        job.log.annotate(one["level"], harmless(one["text"]), title=one["part"])
    # `run` may print no result for its last commit, the summary.
    always = command in (Command.COMMENT, Command.RUN)
    # After a lost race the winner publishes: this clone does not know what it did.
    if found.result != "superseded" and (always or (command.trains and (failed or not shown))):
        # a crash report stays in the log
        hint = f" {failed.hint}" if failed and ended.exit_code != ExitCode.DEFECT else ""
        why = f"{found.title}: {failed.message.rstrip('.')}.{hint}" if failed else ""
        shown.append(_publish(job, why))
    last = shown[-1] if shown else Published()
    folded = fold(ended.results)
    outputs = replace(
        folded,
        commit=last.commit or folded.commit,
        result=found.result,
        page=_leave_page(job, command, ended),
        pull_request=str(last.pull_request or ""),
    )
    rows = [(name, md.code(value, 1_000)) for name, value in outputs.by_name().items() if value]
    listed = "\n".join(f"- {one['part']}: {md.inline(one['text'], 1_000)}" for one in remarks)
    return JobOutcome(
        outputs,
        report=last.report
        or md.join(ended.told, listed, md.table(("output", "value"), rows)) + "\n",
        exit_code=ended.exit_code,
        notes=last.notes,
        ending=ended.told if last.report and ended.exit_code else waits,
    )


def _tell_missing_rollouts(job: Job, command: Command) -> None:
    missing = ", ".join(pattern for pattern, files in job.rollouts.items() if not files)
    if missing and command in (Command.STEP, Command.PROPOSE, Command.CHECK):
        job.log.annotate(
            "warning",
            f"{harmless(missing)} matches no file in {harmless(str(job.workspace))}: the "
            "step makes, and pays for, the rollouts that it does not find.",
            title="input rollouts",
        )


class _Paused(SkilloptError):
    """Ends the training of a job after a result: what comes next must wait."""


def _paused(job: Job) -> str:
    """Why training must wait; empty if it may go on. SkilloptError if GitHub does not say."""
    try:
        if job.client is not None and (loaded := job.configured) is not None:
            ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
            return why_paused(job.client, f"skillopt/{loaded.config.run}", ledger.base)
    except UsageError as error:  # the command itself reports it
        if isinstance(error, Refused) and error.status not in (401, 403):  # these may not ask
            raise
    return ""


def _publish(job: Job, inconclusive: str = "") -> Published:
    """Publish; a failure becomes a note, since all results are in git and can be republished."""
    if job.client is None:
        return Published()
    try:
        return publish_run(job.settings, job.client, inconclusive)
    except SkilloptError as error:
        # If inconclusive, the job tells what ended the command, which may be this very error.
        return Published(notes=() if inconclusive else (job.redact(error.sentences),))
    except Exception as error:  # noqa: BLE001 - see above; the note asks for a report
        return Published(
            notes=(job.redact(f"a defect of skillopt-ci: {type(error).__name__}: {error}"),)
        )


def _leave_page(job: Job, command: Command, ended: Ended) -> str:
    """Write the run's HTML report; return its path, or an empty text if this fails."""
    shown = command.trains or command in (Command.COMMENT, Command.REPORT)
    if not (shown and job.keep.parent.is_dir()):
        return ""
    if command is not Command.REPORT:
        ended = execute(job, command_line(job, Command.REPORT))
    there = ended.failure is None and job.page.is_file()
    return job.page.relative_to(job.workspace).as_posix() if there else ""


def _notes(job: Job, command: Command) -> list[str]:
    if job.client is None or job.configured is None or not command.reads_notes:
        return []
    file = job.keep / "notes.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return ["--notes", str(file)] if leave_notes(job, job.client, file) else []
    except SkilloptError as error:
        job.log.annotate("warning", harmless(str(error)), title="Could not read review comments")
        return []


def leave_notes(job: Job, client: Client, file: Path) -> int:
    """Write the run's review comments to ``file``, with secrets redacted; return how many."""
    loaded = build.load_configured(job.settings)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    number = find_own(client, f"skillopt/{loaded.config.run}", ledger.base)
    path = build.skill_path(loaded, ledger.git.folder)
    said = () if number is None else review_notes(client, number, path)
    notes = (
        ReviewerNote(
            id=note_id(one),
            author=one.author,
            text=job.redact(one.body),
            path=job.redact(one.path or ""),
            line=one.line,
            url=one.url,
        )
        for one in said
    )
    write_notes(notes, file)
    return len(said)


def _evaluate(job: Job, pull: Evaluate) -> JobOutcome:
    if job.client is None:
        raise UsageError("evaluating a pull request needs `token`")
    # Configuration, tasks and scorers must not come from the change that they judge. Reads the raw
    # object, because a shallow clone hides the parents of the merge that GitHub checks out.
    git = Git(job.folder)
    head = git.run("rev-parse", "HEAD").text
    if pull.head_sha == head or f"parent {pull.head_sha}" in git.run("cat-file", "-p", "HEAD").text:
        raise UsageError(
            f"the checkout has pull request #{pull.number} in it; evaluate it from base",
            hint="Check out with `ref: ${{ github.event.pull_request.base.sha }}`.",
        )
    with (
        job.log.untrusted(f"skillopt-ci eval of pull request #{pull.number}") as stream,
        redirect_stderr(stream),
        redirect_stdout(stream),
    ):
        return review_pull_request(job, job.client, pull)

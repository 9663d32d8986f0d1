"""Do what was decided, and say what came of it."""

from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path

from skillopt_ci.action.event import (
    Activity,
    Comment,
    Conclude,
    Evaluate,
    Nothing,
    Perform,
    Reply,
)
from skillopt_ci.action.inputs import Command
from skillopt_ci.action.job import Ended, Job, Outcome, announce, command_line, execute, meaning
from skillopt_ci.action.outputs import Outputs, Result, fold
from skillopt_ci.action.review import review_pull_request
from skillopt_ci.cli.build import learn_secrets, load_configured, skill_path
from skillopt_ci.cli.comment import links_of, note_id, noting, publish_run
from skillopt_ci.cli.read import RunReader, open_reader, view
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import Client
from skillopt_ci.github.comments import keep_comment, react, review_notes
from skillopt_ci.github.pull_requests import find_open, merge_pull_request, why_closed
from skillopt_ci.github.types import Reaction
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.report.comment import footer, lessons_text, marker, results, title
from skillopt_ci.report.evaluation import unevaluated_check
from skillopt_ci.report.markdown import COMMENT_BYTES, Links, block, code, cut, inline, join, table
from skillopt_ci.report.sections import event_line
from skillopt_ci.report.view import RunView
from skillopt_ci.sanitize import harmless, one_line
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.training.review_comments import ReviewerNote, write_notes


def perform(job: Job, activity: Activity) -> Outcome:
    """Do ``activity``. Raises UsageError if it needs a token and there is none."""
    match activity:
        case Nothing(reason, comment, reaction, answer):
            _react(job, comment, reaction)
            outcome = _skipped(job, reason)
            if comment is not None and answer:
                outcome = _answer(job, comment, reason, outcome)
        case Reply(comment):
            _react(job, comment, "eyes")
            outcome = _reply(job, activity)
            _react(job, comment, "confused" if outcome.outputs.result == "skipped" else "rocket")
        case Conclude():
            outcome = _conclude(job, activity)
        case Evaluate(comment=comment) | Perform(comment=comment):
            _react(job, comment, "eyes")
            if isinstance(activity, Evaluate):
                outcome = _evaluate(job, activity)
            else:
                outcome = _command(job, activity.command)
            _react(job, comment, "confused" if outcome.exit_code else "rocket")
    for note in outcome.notes:
        title = "Not everything could be published"
        job.log.annotate("warning", harmless(note), title=title)
    return outcome


def _skipped(job: Job, reason: str) -> Outcome:
    text = one_line(reason, 500)
    job.log.annotate("notice", text, title="skillopt-ci did nothing")
    return Outcome(Outputs(result="skipped"), f"**skillopt-ci did nothing:** {inline(text, 500)}\n")


def _react(job: Job, comment: Comment | None, reaction: Reaction) -> None:
    # a reaction is a courtesy: no job fails for want of it
    with suppress(SkilloptError):
        if job.client is not None and comment is not None:
            react(job.client, comment.id, reaction)


def _answer(job: Job, comment: Comment, text: str, outcome: Outcome) -> Outcome:
    notes = list(outcome.notes)
    with noting(notes):
        if job.client is not None:
            answer = f"{marker('answer', str(comment.id))}\n\n{text}"
            keep_comment(job.client, comment.number, answer)
    return replace(outcome, notes=tuple(notes))


def _reply(job: Job, asked: Reply) -> Outcome:
    """What a refusal says is no failure of the job: the thread has it."""
    comment, notes, page = asked.comment, tuple[str, ...](), ""
    try:
        reader = open_reader(job.settings)
        if comment.request == "report":
            ended = execute(job, command_line(job, Command.REPORT))
            page = _leave_page(job, Command.REPORT, ended)
        if comment.request == "revert":
            text, notes = _revert(job, comment.said)
        elif comment.request == "apply":
            text = _apply(job, view(reader), asked)
        else:
            text = _told(reader, comment.request, links_of(job.environ))
    except SkilloptError as error:
        text = inline(f"Nothing was done: {error}", 1_000)
        return _answer(job, comment, text, _skipped(job, str(error)))
    outputs = Outputs(result="done", page=page)
    return _answer(job, comment, text, Outcome(outputs, text + "\n", notes=notes))


def _told(reader: RunReader, word: str, links: Links) -> str:
    run, path = view(reader), reader.skill_path
    if word == "diff":
        # what is checked out is the default branch
        before, after = reader.ledger.read("HEAD", path) or "", reader.read(path) or ""
        change = unified_diff(before, after, path)
        text = block(change, "diff", lines=200) if change else "Nothing: base has this skill."
    elif word == "report":
        text = lessons_text(run, links) or "Nothing was learned yet that base has not."
    else:
        text = join(event_line(run.history[-1]), results(run))
    return cut(join(f"### {code(run.skill_name)}: {word}", text, footer(run, links)), COMMENT_BYTES)


def _revert(job: Job, what: str) -> tuple[str, tuple[str, ...]]:
    """Take back a step and show the run without it; raises UsageError for one that stays."""
    # the status command has the options that all have, and no other
    options = command_line(job, Command.STATUS)[1:]
    ended = execute(job, ["revert", *options, "--", what])
    if ended.error is not None and not isinstance(ended.error, SkilloptError):
        raise ended.error
    if ended.failure is not None:
        raise UsageError(ended.failure.message)
    if not ended.results:
        raise UsageError("nothing of that is left in the skill")
    done = ended.results[-1]
    what = f"A rule of step {done['step']}" if done["edit"] else f"Step {done['step']}"
    where = links_of(job.environ).commit(done["commit"])
    text = f"{what} is taken back in {where}. The next step scores the skill again."
    return text, _publish(job, "").notes


def _apply(job: Job, run: RunView, asked: Reply) -> str:
    """Merge the run's pull request as it was when somebody asked for that."""
    number, wishes = asked.comment.number, load_configured(job.settings).config.github
    if job.client is None or asked.head_then is None:
        raise UsageError("GitHub does not tell what was this pull request's head when you asked")
    own = find_open(job.client, f"skillopt/{run.state.run}", run.base)
    if own != number:
        raise UsageError(f"#{number} is not the pull request of run '{run.state.run}'")
    if run.state.provisional and asked.comment.said != "anyway":
        raise UsageError(
            f"the skill is not confirmed by fresh attempts ({run.claim})",
            hint="The next end of an epoch, or of the run, tests it. `/skillopt apply anyway` "
            "merges it as it is.",
        )
    merged = merge_pull_request(
        job.client, number, asked.head_then, wishes.merge_method, title(run)
    )
    return "Merged." if merged else "It is merged as soon as its checks allow that."


def _conclude(job: Job, asked: Conclude) -> Outcome:
    """Post the check where nothing is evaluated. Raises UsageError without a configuration."""
    run = load_configured(job.settings).config.run
    outcome, notes = _skipped(job, asked.reason), list[str]()
    links = links_of(job.environ)
    check = unevaluated_check(run, asked.head_sha, asked.conclusion, asked.reason, links)
    with noting(notes):
        if job.client is not None:
            keep_check(job.client, check)
    return replace(outcome, notes=tuple(notes))


def _command(job: Job, command: Command) -> Outcome:
    """Run a command, publish the run after each commit of it, and leave the run as a page."""
    if command.works_for_training and (why := _paused(job)):
        nothing = {"phase": "", "matrix": {"shard": []}}
        outputs = fold([nothing] if command is Command.PLAN else [])
        return replace(_skipped(job, why), outputs=replace(outputs, result="nothing-to-do"))
    shown: list[Outcome] = []

    def on_result(result: Result) -> None:
        if command.trains and "commit" in result:
            shown.append(_publish(job, ""))

    ended = Ended()
    if command is not Command.COMMENT:
        line = [*command_line(job, command), *_notes(job, command)]
        ended = execute(job, line, on_result)
    found = meaning(ended.exit_code)
    if ended.failure is not None and ended.error is not None:
        announce(job.log, ended.failure, ended.error, job.runner.workspace)
    if command is Command.COMMENT or (command.trains and (ended.failure or not shown)):
        shown.append(_publish(job, found.title if ended.failure else ""))
    last = shown[-1] if shown else Outcome()
    outputs = replace(
        fold(ended.results),
        result=found.result,
        page=_leave_page(job, command, ended),
        pull_request=last.outputs.pull_request,
    )
    exit_code = ended.exit_code if found.job_fails else 0
    return replace(
        last, outputs=outputs, report=last.report or _report(ended, outputs), exit_code=exit_code
    )


def _paused(job: Job) -> str:
    """Why training waits: a person closed the run's pull request. Empty if it goes on."""
    with suppress(SkilloptError):  # the command itself says what is wrong
        if job.client is not None and (loaded := job.configured) is not None:
            ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
            return why_closed(job.client, f"skillopt/{loaded.config.run}", ledger.base)
    return ""


def _report(ended: Ended, outputs: Outputs) -> str:
    """What the summary says where nothing was published."""
    text = "" if ended.failure is None else inline(ended.failure.message, 1_000)
    rows = [(name, code(value, 1_000)) for name, value in outputs.by_name().items() if value]
    title = f"**{meaning(ended.exit_code).title}.** {text}".rstrip()
    return join(title, table(("output", "value"), rows)) + "\n"


def _publish(job: Job, inconclusive: str) -> Outcome:
    """Publish, whatever comes of it: what was paid for is in git and can be published again."""
    if job.client is None:
        return Outcome()
    try:
        links = links_of(job.environ)
        shown = publish_run(job.settings, job.client, links=links, inconclusive=inconclusive)
    except SkilloptError as error:
        return Outcome(notes=(str(error),))
    except Exception as error:  # noqa: BLE001 - see above; the note asks for a report
        return Outcome(notes=(f"a defect of skillopt-ci: {type(error).__name__}: {error}",))
    outputs = Outputs.of(pull_request=shown.pull_request)
    return Outcome(outputs, shown.report, notes=shown.notes)


def _leave_page(job: Job, command: Command, ended: Ended) -> str:
    """Leave the run as a page; return its path, empty if there is none: no job fails for that."""
    if not command.shows or not job.keep.parent.is_dir():
        return ""
    if command is not Command.REPORT:
        ended = execute(job, command_line(job, Command.REPORT))
    if ended.failure is not None or not job.page.is_file():
        return ""
    return job.page.relative_to(job.runner.workspace).as_posix()


def _notes(job: Job, command: Command) -> list[str]:
    """The option that hands over what reviewers said; without it they wait for the next step."""
    if job.client is None or not command.steps:
        return []
    file = job.keep / "notes.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return ["--notes", str(file)] if leave_notes(job, job.client, file) else []
    except SkilloptError as error:
        title = "What reviewers said could not be read"
        job.log.annotate("warning", harmless(str(error)), title=title)
        return []


def leave_notes(job: Job, client: Client, file: Path) -> int:
    """Write the review comments on the run's pull request to ``file``; return how many there are.

    Secrets that somebody wrote into a comment are left out of it. Raises what loading the
    configuration and asking GitHub raise.
    """
    loaded = load_configured(job.settings)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    number = find_open(client, f"skillopt/{loaded.config.run}", ledger.base)
    path = skill_path(loaded, ledger.root)
    said = () if number is None else review_notes(client, number, path)
    learn_secrets(job.redact, loaded, job.environ)
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


def _evaluate(job: Job, pull: Evaluate) -> Outcome:
    if job.client is None:
        raise UsageError("evaluating a pull request needs `token`")
    # Configuration, tasks and scorers must not come from the very change that they judge. The raw
    # object is read: a shallow clone hides the parents of the merge that GitHub checks out.
    git = Git(job.folder)
    head = git.attempt("rev-parse", "HEAD").text
    commit = git.attempt("cat-file", "-p", "HEAD").text
    if pull.head_sha == head or f"parent {pull.head_sha}" in commit:
        raise UsageError(
            f"the checkout has pull request #{pull.number} in it, and only base can judge it",
            hint="Check out with `ref: ${{ github.event.pull_request.base.sha }}`.",
        )
    with (
        job.log.group(f"skillopt-ci eval of pull request #{pull.number}"),
        job.log.untrusted() as stream,
        redirect_stderr(stream),
        redirect_stdout(stream),
    ):
        outcome = review_pull_request(job, job.client, pull)
    found = meaning(outcome.exit_code)
    return replace(
        outcome,
        outputs=replace(outcome.outputs, result=found.result),
        exit_code=outcome.exit_code if found.job_fails else 0,
    )

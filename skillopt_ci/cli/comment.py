"""``skillopt-ci comment``: update GitHub. Refusals become notes, since the steps are paid for."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_ci.cli.build import load_configured
from skillopt_ci.cli.options import Globals, command
from skillopt_ci.cli.read import open_reader, view
from skillopt_ci.config.config import GitHub
from skillopt_ci.errors import LostRace, SkilloptError
from skillopt_ci.github.types import Comment, WantedPullRequest
from skillopt_ci.report import comment
from skillopt_ci.report.evaluation import TRAINED, unevaluated_check
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.view import RunView
from skillopt_ci.sanitize import harmless
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.tasks.task import Task

if TYPE_CHECKING:
    from skillopt_ci.github.client import Client

#: Steps whose review comments are answered: an older one was, unless its job died right then.
_ANSWERED_STEPS = 3


@dataclass(frozen=True, slots=True)
class Published:
    """What stands on GitHub now. ``report`` is the comment's text, ``notes`` what was refused."""

    report: str = ""
    pull_request: int | None = None
    notes: tuple[str, ...] = ()
    commit: str = ""


@command()
@click.option(
    "--publish",
    "publishing",
    is_flag=True,
    help="Update pull request, comment and check on GitHub; needs GITHUB_TOKEN and "
    "GITHUB_REPOSITORY.",
)
def comment_command(settings: Globals, publishing: bool) -> None:
    """Print the run's pull request and its comment, read from git alone.

    --publish posts both, together with the check. Publishing twice changes nothing.
    """
    if not publishing:
        run, links = view(open_reader(settings)), links_of(settings.environ)
        told = {
            "title": comment.title(run),
            "body": comment.body(run, links),
            "comment": comment.pinned_comment(run, links),
        }
        settings.tell(told, harmless("\n\n".join(told.values())))
        return
    from skillopt_ci.github.client import connect  # noqa: PLC0415 - PyGithub is slow

    client = connect(settings.environ, redact=settings.redact)
    open_reader(settings, fresh=True)  # an old clone would publish an old state
    published = publish_run(settings, client)
    for note in published.notes:
        settings.say(f"warning: {harmless(note)}", err=True)
    number = published.pull_request
    settings.tell(
        {"pull_request": number, "notes": published.notes},
        "no pull request" if number is None else f"pull request #{number}",
    )


def publish_run(settings: Globals, client: "Client", inconclusive: str = "") -> Published:
    """Show the run that ``settings`` name; raises RepositoryError if it has not started."""
    reader, options, tasks = open_reader(settings), GitHub(), dict[str, comment.TaskPlace]()
    if settings.config_file.is_file():
        loaded = load_configured(settings)
        options, files = loaded.config.github, loaded.config.tasks
        with suppress(SkilloptError):  # the check goes without places
            splits = None if files is None else load_splits(files, loaded.root)
            tasks = {} if splits is None else task_places(splits.all, reader.ledger.git.folder)
    run = replace(view(reader), inconclusive=inconclusive)
    return publish(run, client, options, links_of(settings.environ), tasks=tasks)


def publish(
    run: RunView,
    client: "Client",
    options: GitHub,
    links: Links,
    *,
    tasks: Mapping[str, comment.TaskPlace] | None = None,
) -> Published:
    """Publish as far as GitHub allows."""
    from skillopt_ci.github import checks, comments, pull_requests  # noqa: PLC0415 - see above
    from skillopt_ci.github.client import noting  # noqa: PLC0415

    notes: list[str] = []
    report = comment.pinned_comment(run, links)
    number = read = None
    wanted = WantedPullRequest(
        head=f"skillopt/{run.state.run}",
        base=run.base,
        title=comment.title(run),
        body=comment.body(run, links),
        draft=options.draft and not run.improved,
        labels=options.labels,
    )
    with noting(notes):
        kept = pull_requests.keep_pull_request(client, wanted)
        number = kept.number
        notes.extend(kept.notes)
        # nobody reads on a pull request that people closed
        read = None if kept.declined else number
        if read is not None:
            with noting(notes):
                if options.comments == "sticky":
                    comments.keep_comment(client, read, report)
                elif options.comments == "per-step":
                    comments.keep_comment(client, read, comment.step_comment(run, links))
            with noting(notes):
                answer_notes(run, client, links, read)
    with noting(notes):
        # What a workflow's token pushes starts no job that could post it, and it may be required.
        trained = unevaluated_check(run.state.run, run.commit, "success", TRAINED, links)
        with suppress(LostRace):  # `/skillopt eval` measured it
            checks.keep_check(client, trained)
        checks.keep_check(client, comment.step_check(run, links, tasks=tasks))
    with noting(notes):
        if (check := comment.confirmation_check(run, links)) is not None:
            checks.keep_check(client, check)
    # only what is sure to be better merges by itself, never what waits for a verdict
    asked = options.merge == "auto" and not run.inconclusive and not run.state.provisional
    if asked and run.improved and read is not None:
        with noting(notes):
            pull_requests.merge_pull_request(
                client, read, run.commit, options.merge_method, comment.title(run)
            )
    return Published(report, number, tuple(notes), run.commit)


def answer_notes(run: RunView, client: "Client", links: Links, number: int) -> None:
    """Answer, once, each review comment that the newest steps took up."""
    from skillopt_ci.github.client import NotFound  # noqa: PLC0415 - see above
    from skillopt_ci.github.comments import keep_comment, review_notes  # noqa: PLC0415

    answers = {
        note: text
        for record in run.steps[-_ANSWERED_STEPS:]
        for note, text in comment.note_answers(
            run.state.run, record, run.place(record.step).verdict, links
        ).items()
    }
    for note in review_notes(client, number, run.state.skill) if answers else ():
        if note_id(note) in answers:
            with suppress(NotFound):  # the comment that began the thread was deleted
                keep_comment(client, number, answers[note_id(note)], thread=note.thread)


def note_id(said: Comment) -> str:
    return f"{said.kind}-{said.id}"


def task_places(tasks: Iterable[Task], repository: Path) -> dict[str, comment.TaskPlace]:
    """Where each of ``tasks`` is defined in the repository, if it is."""
    found, root = dict[str, comment.TaskPlace](), repository.resolve()
    for task in tasks:
        file = task.file and task.file.resolve()
        if file and task.line and file.is_relative_to(root):
            found[task.id] = comment.TaskPlace(file.relative_to(root).as_posix(), task.line)
    return found


def links_of(environ: Mapping[str, str]) -> Links:
    if not (repository := environ.get("GITHUB_REPOSITORY", "")):
        return Links()
    address = f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{repository}"
    number = environ.get("GITHUB_RUN_ID", "")
    return Links(address, f"{address}/actions/runs/{number}" if number else "")

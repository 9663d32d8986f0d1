"""Show a run on GitHub as its git record says: pull request, comment, check.

Publishing again changes nothing. What GitHub will not do becomes a note: the steps are paid for
and recorded, and nothing of them depends on being seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from skillopt_ci.action.job import Shown
from skillopt_ci.cli.build import learn_secrets, load_configured, skill_path
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import RunReader, open_reader, view
from skillopt_ci.config.config import GitHub
from skillopt_ci.config.loading import Loaded
from skillopt_ci.errors import SkilloptError
from skillopt_ci.github.types import (
    Change,
    Forge,
    KeptPullRequest,
    Merging,
    PullRequest,
    ReviewNote,
    WantedPullRequest,
)
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.redaction import Redact
from skillopt_ci.report.check import TaskPlace, step_check
from skillopt_ci.report.comment import body, note_answers, pinned_comment, step_comment, title
from skillopt_ci.report.text import Links
from skillopt_ci.report.view import RunView
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.training.review_comments import ReviewerNote, write_notes

# Review comments as gradients: handed to the next step, and answered when it is done.

#: The newest steps whose notes are answered: an older one was, unless its job died right then.
_ANSWERED_STEPS = 3


def leave_notes(settings: Globals, forge: Forge, file: Path) -> int:
    """Write what reviewers said on the run's pull request to ``file``; return how many notes.

    Secrets that somebody wrote into a note are left out of it.

    Raises what loading the configuration and asking the forge raise.
    """
    loaded = load_configured(settings)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    pull = forge.open_pull_request(f"skillopt/{loaded.config.run}", ledger.base)
    path = skill_path(loaded, ledger.root)
    said = () if pull is None else forge.review_notes(pull.number, path)
    learn_secrets(settings.redact, loaded, settings.environ)
    write_notes((_note(one, settings.redact) for one in said), file)
    return len(said)


def answer_notes(run: RunView, forge: Forge, links: Links, number: int) -> None:
    """Answer the notes of the newest steps on pull request ``number``; once, however often asked.

    Raises what the forge raises.
    """
    answers = {
        note: text
        for record in run.steps[-_ANSWERED_STEPS:]
        for note, text in note_answers(
            run.state.run, record, run.place(record.step).verdict, links
        ).items()
    }
    said = forge.review_notes(number, run.state.skill) if answers else ()
    for note in said:
        if _id(note) in answers:
            forge.answer(number, note, answers[_id(note)])


def _note(said: ReviewNote, redact: Redact) -> ReviewerNote:
    return ReviewerNote(
        id=_id(said),
        author=said.author,
        text=redact(said.body),
        path=redact(said.path or ""),
        line=said.line,
        url=said.url,
    )


def _id(said: ReviewNote) -> str:
    return f"{said.ref.kind}-{said.ref.id}"


Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True)
class Showing:
    """What is to be shown, besides the run itself.

    ``inconclusive`` says why the newest job came to no verdict, ``tasks`` where tasks are defined.
    """

    wishes: GitHub = field(default_factory=GitHub)
    links: Links = field(default_factory=Links)
    inconclusive: str = ""
    tasks: Mapping[str, TaskPlace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Published:
    """What stands on GitHub now. ``report`` is the comment's text, ``notes`` what was refused."""

    report: str
    pull_request: int | None = None
    notes: tuple[str, ...] = ()


def report(run: RunView, showing: Showing) -> str:
    """The text of the comment and of a job's summary."""
    return pinned_comment(run, showing.links, inconclusive=showing.inconclusive)


def publish(run: RunView, forge: Forge, showing: Showing) -> Published:
    """Bring pull request, comment and check up to date, each as far as GitHub allows it."""
    notes: list[str] = []
    kept = _try(notes, lambda: _keep_pull_request(run, forge, showing))
    pull = None if kept is None else kept.pull_request
    if kept is not None:
        notes.extend(kept.notes)
    if kept is not None and pull is not None and _wanted(kept):
        _try(notes, lambda: _comment(run, forge, showing, pull))
        _try(notes, lambda: answer_notes(run, forge, showing.links, pull.number))
    _try(
        notes,
        lambda: forge.keep_check(
            step_check(run, showing.links, inconclusive=showing.inconclusive, tasks=showing.tasks)
        ),
    )
    if kept is not None and pull is not None and _may_merge(run, showing, pull):
        notes.extend(_try(notes, lambda: _merge(run, forge, showing, pull)) or ())
    return Published(report(run, showing), None if pull is None else pull.number, tuple(notes))


def _try(notes: list[str], ask: Callable[[], Asked]) -> Asked | None:
    try:
        return ask()
    except SkilloptError as error:
        notes.append(str(error))
        return None


def _keep_pull_request(run: RunView, forge: Forge, showing: Showing) -> KeptPullRequest:
    wishes = showing.wishes
    text = body(
        run,
        showing.links,
        inconclusive=showing.inconclusive,
        with_chart=wishes.comments != "sticky",
    )
    return forge.keep_pull_request(
        WantedPullRequest(
            head=f"skillopt/{run.state.run}",
            base=run.base,
            title=title(run),
            body=text,
            draft=wishes.draft and not run.improved,
            labels=wishes.labels,
        )
    )


def _wanted(kept: KeptPullRequest) -> bool:
    """Whether people want to read on it: they closed one that was declined."""
    return kept.change is not Change.DECLINED


def _comment(run: RunView, forge: Forge, showing: Showing, pull: PullRequest) -> None:
    comments = showing.wishes.comments
    if comments == "sticky":
        forge.keep_comment(pull.number, report(run, showing))
    elif comments == "per-step":
        text = step_comment(run, showing.links, inconclusive=showing.inconclusive)
        forge.keep_comment(pull.number, text)


def _may_merge(run: RunView, showing: Showing, pull: PullRequest) -> bool:
    """Only what was measured to be better merges by itself, never what waits for a verdict."""
    asked = showing.wishes.merge == "auto" and not showing.inconclusive
    return asked and run.improved and pull.open and not pull.draft


def _merge(run: RunView, forge: Forge, showing: Showing, pull: PullRequest) -> tuple[str, ...]:
    outcome = forge.merge(pull.number, run.commit, showing.wishes.merge_method, title(run))
    return (outcome.note,) if outcome.merging is Merging.WITHHELD and outcome.note else ()


# Publish the run of a checkout: from its configuration and its git record to GitHub.


def publish_run(
    settings: Globals,
    forge: Forge,
    *,
    links: Links | None = None,
    inconclusive: str = "",
) -> Published:
    """Show the run that ``settings`` name, as its record in git says.

    Raises RepositoryError if it has not started; what GitHub refuses is a note, not an error.
    """
    reader = open_reader(settings)
    return publish(view(reader), forge, showing(settings, reader, links or Links(), inconclusive))


def showing(settings: Globals, reader: RunReader, links: Links, inconclusive: str = "") -> Showing:
    """What the configuration wishes to be shown, and where its tasks are."""
    file = settings.cwd / settings.config
    if not file.is_file():
        return Showing(links=links, inconclusive=inconclusive)
    loaded = load_configured(settings)
    places = task_places(loaded, reader.ledger.root)
    return Showing(loaded.config.github, links, inconclusive, places)


def task_places(loaded: Loaded, repository: Path) -> Mapping[str, TaskPlace]:
    """Where each task is defined in the repository; nothing if they cannot be read (any more)."""
    if loaded.config.tasks is None:
        return {}
    try:
        splits = load_splits(loaded.config.tasks, loaded.root)
    except SkilloptError:
        return {}
    root = repository.resolve()
    tasks = (*splits.train, *splits.selection, *splits.test)
    return {
        task.id: TaskPlace(task.file.resolve().relative_to(root).as_posix(), task.line)
        for task in tasks
        if task.file is not None
        and task.line is not None
        and task.file.resolve().is_relative_to(root)
    }


def links_of(environ: Mapping[str, str]) -> Links:
    """The addresses that a workflow's environment names; none outside of one."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not repository:
        return Links()
    address = f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{repository}"
    number = environ.get("GITHUB_RUN_ID", "")
    return Links(address, f"{address}/actions/runs/{number}" if number else "")


# Publishing as a job needs it: by its settings, with links to the workflow run.


@dataclass(frozen=True, slots=True)
class RunPublisher:
    """Shows the run of a checkout through ``forge``."""

    forge: Forge

    def publish(self, settings: Globals, inconclusive: str) -> Shown:
        """Show the run; raises RepositoryError if it has not started."""
        links = links_of(settings.environ)
        done = publish_run(settings, self.forge, links=links, inconclusive=inconclusive)
        return Shown(done.report, done.pull_request, done.notes)

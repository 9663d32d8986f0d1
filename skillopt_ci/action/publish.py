"""Show a run on GitHub as its git record says: pull request, comment, check.

Publishing again changes nothing. What GitHub will not do becomes a note: the steps are paid for
and recorded, and nothing of them depends on being seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from skillopt_ci.action.guidance import answer_notes
from skillopt_ci.config.config import GitHub
from skillopt_ci.errors import SkilloptError
from skillopt_ci.github.types import (
    Change,
    Forge,
    KeptPullRequest,
    Merging,
    PullRequest,
    WantedPullRequest,
)
from skillopt_ci.report.check import TaskPlace, step_check
from skillopt_ci.report.comment import body, pinned_comment, step_comment, title
from skillopt_ci.report.text import Links
from skillopt_ci.report.view import RunView

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

"""The one rolling pull request of a run.

What people did to it decides: one that they closed stays closed as long as its branch stands;
deleting the branch, or merging, makes room for a new one.
"""

from dataclasses import replace
from functools import partial

from github.PullRequest import PullRequest as HubPullRequest

from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.failure import Refused, Unavailable
from skillopt_ci.github.forge import Change, KeptPullRequest, PullRequest, WantedPullRequest
from skillopt_ci.github.once import create_once
from skillopt_ci.github.texts import BODY, TITLE, clip_line, clip_text, same_text

WRITE = "pull-requests: write"
_READ = "pull-requests: read"
_BRANCH_EVENTS = ("head_ref_deleted", "head_ref_restored", "reopened")


def read(client: Client, number: int) -> HubPullRequest:
    """Fetch a pull request; raises NotFound if there is none of that number."""
    with asking(f"show pull request #{number}", _READ):
        return client.repo.get_pull(number).complete()


def open_of(client: Client, head: str, base: str) -> PullRequest | None:
    """Return the open pull request of a branch; that into ``base`` if there are several."""
    found = _open_one(_of_branch(client, head, base))
    return None if found is None else value(found)


def keep(client: Client, wanted: WantedPullRequest) -> KeptPullRequest:
    """Open the pull request of a branch or bring it up to date."""
    wanted = replace(
        wanted, title=clip_line(wanted.title, TITLE), body=clip_text(wanted.body, BODY)
    )
    pulls = _of_branch(client, wanted.head, wanted.base)
    current = _open_one(pulls)
    if current is not None:
        return _update(client, current, wanted)
    newest = next(iter(pulls), None)
    if newest is not None and _declined(client, newest):
        note = (
            f"#{newest.number} was closed without a merge and is left alone: open it again to go "
            f"on, or delete the branch {wanted.head} to start over."
        )
        return KeptPullRequest(value(newest), Change.DECLINED, (note,))
    return _create(client, wanted)


def value(pull: HubPullRequest) -> PullRequest:
    """Return a pull request as a value of our own."""
    head, base = pull.head, pull.base
    return PullRequest(
        number=pull.number,
        url=pull.html_url,
        title=pull.title,
        body=pull.body or "",
        author=pull.user.login if pull.user else "ghost",
        open=pull.state == "open",
        merged=pull.merged_at is not None,
        draft=bool(pull.draft),
        locked=bool(pull.locked),
        head_ref=head.ref,
        head_sha=head.sha,
        head_repository=head.repo.full_name if head.repo else None,
        base_ref=base.ref,
        base_sha=base.sha,
        base_repository=base.repo.full_name,
        labels=tuple(label.name for label in pull.labels),
    )


def _of_branch(client: Client, head: str, base: str) -> list[HubPullRequest]:
    """Return all pull requests of the branch ``head``, newest first, those into ``base`` before."""
    with asking("list pull requests", _READ):
        pulls = client.repo.get_pulls(
            state="all", head=f"{client.owner}:{head}", sort="created", direction="desc"
        )
        own = [pull for pull in pulls if not value(pull).from_fork]
    return sorted(own, key=lambda pull: (pull.base.ref != base, -pull.number))


def _open_one(pulls: list[HubPullRequest]) -> HubPullRequest | None:
    return next((pull for pull in pulls if pull.state == "open"), None)


def _declined(client: Client, pull: HubPullRequest) -> bool:
    """Say whether a person closed it and its branch was not deleted since."""
    if pull.merged_at is not None:
        return False
    branch_gone = False
    with asking(f"show the history of pull request #{pull.number}", _READ):
        for event in client.repo.get_issue(pull.number).get_events():
            if event.event in _BRANCH_EVENTS:
                branch_gone = event.event == "head_ref_deleted"
    return not branch_gone


def _create(client: Client, wanted: WantedPullRequest) -> KeptPullRequest:
    """Open a new one; another job may have been quicker, or there may be nothing to propose."""
    try:
        pull = create_once(
            lambda: _open(client, wanted, draft=wanted.draft),
            lambda: _open_one(_of_branch(client, wanted.head, wanted.base)),
            client.patience.wait,
        )
    except Refused as refused:
        return _mend(client, wanted, refused)
    return _finish(client, pull, wanted, Change.CREATED)


def _mend(client: Client, wanted: WantedPullRequest, refused: Refused) -> KeptPullRequest:
    """Make the best of a refusal to open one, or raise it again."""
    if "no commits between" in refused.words.lower():
        return KeptPullRequest(None, Change.NOTHING)
    if "already exists" in refused.words.lower():
        found = _open_one(_of_branch(client, wanted.head, wanted.base))
        if found is not None:
            return _update(client, found, wanted)
    if wanted.draft and "draft pull requests are not supported" in refused.words.lower():
        kept = _create(client, replace(wanted, draft=False))
        note = "This repository's plan has no draft pull requests: it was opened as ready."
        return replace(kept, notes=(note, *kept.notes))
    raise refused


def _open(client: Client, wanted: WantedPullRequest, *, draft: bool) -> HubPullRequest:
    with asking("open a pull request", WRITE):
        return client.repo.create_pull(
            wanted.base, wanted.head, title=wanted.title, body=wanted.body, draft=draft
        )


def _update(client: Client, pull: HubPullRequest, wanted: WantedPullRequest) -> KeptPullRequest:
    if pull.title == wanted.title and same_text(pull.body, wanted.body):
        return _finish(client, pull, wanted, Change.UNCHANGED)
    with asking(f"edit pull request #{pull.number}", WRITE):
        pull.edit(title=wanted.title, body=wanted.body)
    return _finish(client, pull, wanted, Change.UPDATED)


def _finish(
    client: Client, pull: HubPullRequest, wanted: WantedPullRequest, change: Change
) -> KeptPullRequest:
    """Do what a pull request can do without: a refusal of that becomes a note."""
    before = value(pull)
    now, notes = before, list[str]()
    for improve in (partial(_make_ready, pull), partial(_add_labels, client)):
        try:
            now = improve(now, wanted)
        except (Refused, Unavailable) as failure:
            notes.append(" ".join(str(failure).split()))
    if now != before and change == Change.UNCHANGED:
        change = Change.UPDATED
    return KeptPullRequest(now, change, tuple(notes))


def _make_ready(pull: HubPullRequest, now: PullRequest, wanted: WantedPullRequest) -> PullRequest:
    if wanted.draft or not now.draft:
        return now
    with asking(f"mark #{now.number} as ready for review", WRITE):
        pull.mark_ready_for_review()
    return replace(now, draft=False)


def _add_labels(client: Client, now: PullRequest, wanted: WantedPullRequest) -> PullRequest:
    missing = tuple(label for label in wanted.labels if label not in now.labels)
    if not missing:
        return now
    with asking(f"label #{now.number}", WRITE):
        client.send("POST", f"/issues/{now.number}/labels", {"labels": missing})
    return replace(now, labels=now.labels + missing)

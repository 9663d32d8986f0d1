"""The one rolling pull request of a run.

What people did to it decides: one that they closed stays closed as long as its branch stands;
deleting the branch, or merging, makes room for a new one.
"""

from base64 import b64decode
from dataclasses import replace
from functools import partial

from github.GithubObject import NotSet
from github.PullRequest import PullRequest as HubPullRequest

from skillopt_ci.github.client import (
    BODY,
    TITLE,
    Client,
    NotFound,
    Refused,
    Unavailable,
    asking,
    clip_line,
    clip_text,
    create_once,
    same_text,
)
from skillopt_ci.github.types import (
    Change,
    ChangedFile,
    ChangedFiles,
    KeptPullRequest,
    MergeMethod,
    MergeOutcome,
    Merging,
    PullRequest,
    WantedPullRequest,
)

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


# Merge a pull request the way a careful person would: through everything that protects base.

_WRITE = "contents: write` and `pull-requests: write"
_POLLS = 5
_PAUSE = 2.0
#: What GitHub says when there is nothing that auto-merge could wait for.
_NOTHING_TO_WAIT_FOR = (
    "clean status",
    "auto merge is not allowed",
    "auto-merge is not allowed",
    "protected branch rules not configured",
)
_OBSTACLES = {
    "behind": "its branch has to take in base first",
    "blocked": "what protects base is not satisfied yet",
    "dirty": "it conflicts with base",
    "draft": "it is a draft",
    "unknown": "GitHub has not found out yet whether it can be merged",
    "unstable": "one of its checks has not succeeded",
}


def merge(
    client: Client, number: int, head_sha: str, method: MergeMethod, title: str
) -> MergeOutcome:
    """Let GitHub merge by itself when it may; at once only if nothing is left to wait for."""
    pull = read(client, number)
    if pull.merged:
        return MergeOutcome(Merging.MERGED)
    obstacle = _obstacle(pull, head_sha)
    if obstacle:
        return MergeOutcome(Merging.WITHHELD, f"#{number} was not merged: {obstacle}.")
    if pull.raw_data.get("auto_merge"):
        return MergeOutcome(Merging.SCHEDULED)
    try:
        _schedule(pull, head_sha, method, title)
    except Refused as refused:
        if any(sign in refused.words.lower() for sign in _NOTHING_TO_WAIT_FOR):
            return _merge_now(client, pull, head_sha, method, title)
        return MergeOutcome(Merging.WITHHELD, " ".join(str(refused).split()))
    return MergeOutcome(Merging.SCHEDULED)


def _obstacle(pull: HubPullRequest, head_sha: str) -> str:
    if pull.state != "open":
        return "it is closed"
    if pull.draft:
        return "it is a draft"
    return "" if pull.head.sha == head_sha else "its branch moved on"


def _schedule(pull: HubPullRequest, head_sha: str, method: MergeMethod, title: str) -> None:
    with asking(f"schedule the merge of #{pull.number}", _WRITE):
        pull.enable_automerge(
            method.upper(), expected_head_oid=head_sha, commit_headline=title or NotSet
        )


def _merge_now(
    client: Client, pull: HubPullRequest, head_sha: str, method: MergeMethod, title: str
) -> MergeOutcome:
    """Merge unless something is in the way, which those with more rights could override."""
    state = _settled_state(client, pull)
    if state not in ("clean", "has_hooks"):
        reason = _OBSTACLES.get(state, f"GitHub calls it {state}")
        return MergeOutcome(Merging.WITHHELD, f"#{pull.number} was not merged: {reason}.")
    try:
        with asking(f"merge #{pull.number}", _WRITE):
            pull.merge(sha=head_sha, merge_method=method, commit_title=title or NotSet)
    except Refused as refused:
        # An answer that was lost and asked for again: the first request did it.
        done = read(client, pull.number).merged
        return MergeOutcome(
            Merging.MERGED if done else Merging.WITHHELD, "" if done else str(refused)
        )
    return MergeOutcome(Merging.MERGED)


def _settled_state(client: Client, pull: HubPullRequest) -> str:
    """Return what GitHub finds in the way; it computes that only after having been asked."""
    for _ in range(_POLLS):
        if pull.mergeable_state not in (None, "unknown"):
            break
        client.patience.wait(_PAUSE)
        with asking(f"show pull request #{pull.number}", "pull-requests: read"):
            pull.update()
    return pull.mergeable_state or "unknown"


# Files of a pull request, read as data and never checked out.


def changed(client: Client, number: int) -> ChangedFiles:
    """Return the files that a pull request changes; GitHub lists at most 3,000."""
    with asking(f"list the files of #{number}", "pull-requests: read"):
        pull = client.repo.get_pull(number).complete()
        files = tuple(
            ChangedFile(file.filename, file.status, file.previous_filename or None)
            for file in pull.get_files()
        )
        return ChangedFiles(files, complete=len(files) >= pull.changed_files)


def at(client: Client, path: str, ref: str) -> bytes | None:
    """Return the content of a file at ``ref``, None if there is no regular file at ``path``."""
    try:
        with asking(f"show {path} at {ref}", "contents: read"):
            found = client.repo.get_contents(path, ref)
            if isinstance(found, list) or found.type != "file":
                return None
            # Above one megabyte the content is left out and has to be fetched as an object.
            complete = found if found.encoding == "base64" else client.repo.get_git_blob(found.sha)
            return b64decode(complete.content)
    except NotFound:
        return None

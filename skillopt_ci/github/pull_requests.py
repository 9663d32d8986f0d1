"""A run's single rolling pull request, and the contents of people's pull requests."""

from base64 import b64decode
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

from github.GithubObject import NotSet
from github.PullRequest import PullRequest

from skillopt_ci.github.client import Client, NotFound, Refused, asking, noting, same_text
from skillopt_ci.github.types import CONFIRMED, KeptPullRequest, MergeMethod, WantedPullRequest

_READ, _WRITE = "pull-requests: read", "pull-requests: write"
_MERGE = "contents: write` and `pull-requests: write"
_BRANCH_EVENTS = ("head_ref_deleted", "head_ref_restored", "reopened")

#: How often we poll GitHub for mergeability, and the seconds between polls.
_POLLS, _PAUSE = 5, 2.0
#: GitHub's messages if auto-merge has nothing to wait for.
_NOTHING_TO_WAIT_FOR = (
    "clean status",
    "unstable status",
    "auto merge is not allowed",
    "auto-merge is not allowed",
    "protected branch rules not configured",
)
_OBSTACLES = {
    "behind": "its branch must be updated first",
    "blocked": "branch protection is not satisfied yet",
    "dirty": "it conflicts with base",
    "draft": "it is a draft",
    "unknown": "GitHub is still checking whether it can be merged",
}


def get_pull_request(client: Client, number: int) -> PullRequest:
    with asking(f"show pull request #{number}", _READ):
        return client.repo.get_pull(number).complete()


def head_before(client: Client, pull: PullRequest, moment: str) -> str | None:
    """The head that a pull request had just before ``moment`` (UTC, ISO 8601).

    From GitHub's log of pushes, since commit dates can be forged; None if it is out of reach.
    """
    head = pull.raw_data["head"]
    repository, ref = (head["repo"] or {}).get("full_name"), f"refs/heads/{head['ref']}"
    if not repository:
        return None
    with suppress(Refused), asking(f"list the pushes to {head['ref']}", "contents: read"):
        for push in client.listing("/activity", repository, ref=ref):
            # Within the same second, the order is unknown.
            if push["timestamp"] < moment:
                return None if push["activity_type"] == "branch_deletion" else push["after"]
    return None


def find_own(client: Client, head: str, base: str) -> int | None:
    """Our branch's open pull request, or else the last merged one; those into ``base`` first."""
    pulls = _of_branch(client, head, base)
    found = _open_one(pulls) or next((pull for pull in pulls if pull.merged_at), None)
    return None if found is None else found.number


def keep_pull_request(client: Client, wanted: WantedPullRequest) -> KeptPullRequest:
    """Open the pull request of a branch, or update it.

    If a person closed it, it stays closed until they reopen it or delete its branch.
    After a merge, or on a new branch of the same name, a new one is opened.
    """
    wanted = replace(wanted, title=client.redact(wanted.title), body=client.redact(wanted.body))
    pulls = _of_branch(client, wanted.head, wanted.base)
    if (current := _open_one(pulls)) is not None:
        return _update(client, current, wanted)
    if closed := _closed(client, pulls, wanted.head):
        return KeptPullRequest(pulls[0].number, declined=True, notes=(closed,))
    return _create(client, wanted)


def why_paused(client: Client, head: str, base: str) -> str:
    """Why our branch must not move: a person closed its pull request, or GitHub is to merge it."""
    pulls = _of_branch(client, head, base)
    current = _open_one(pulls)
    if current is None:
        return _closed(client, pulls, head)
    if get_pull_request(client, current.number).raw_data.get("auto_merge"):
        unknown = ""
        try:
            if _awaits_confirmation(client, current):
                return ""
        except Refused as refused:
            unknown = f" {refused.sentences}"
        # GitHub would merge what is pushed meanwhile, which nobody asked for.
        return (
            f"#{current.number} merges as soon as its checks allow that, and training waits: "
            "disable its auto-merge to continue. If a check of this run is missing, run `comment`."
            f"{unknown}"
        )
    if _is_queued(client, current):
        # what is pushed meanwhile would throw it out of the queue
        return f"#{current.number} is in the merge queue, and training waits: remove it to train."
    return ""


def merge_pull_request(
    client: Client, number: int, head_sha: str, method: MergeMethod = "merge", title: str = ""
) -> bool:
    """Have GitHub merge a pull request, if still at ``head_sha``, once branch protection allows it.

    Returns whether it is merged already: nothing to wait for. Refused if something blocks it.
    """
    pull, title = get_pull_request(client, number), client.redact(title)
    if pull.merged:
        return True
    for in_the_way, why in (
        (pull.state != "open", "it is closed"),
        (pull.draft, "it is a draft"),
        (pull.head.sha != head_sha, "its branch moved on; look at what is new, then ask again"),
    ):
        if in_the_way:
            raise Refused(f"#{number} was not merged: {why}.")
    if pull.raw_data.get("auto_merge") or _is_queued(client, pull):
        return False
    try:
        with asking(f"schedule the merge of #{number}", _MERGE):
            pull.enable_automerge(
                method.upper(), expected_head_oid=head_sha, commit_headline=title or NotSet
            )
    except Refused as refused:
        if not any(sign in refused.words.lower() for sign in _NOTHING_TO_WAIT_FOR):
            raise
        _merge_now(client, pull, head_sha, method, title)
        return True
    return False


def changed_paths(client: Client, number: int, head: str) -> frozenset[str] | None:
    """Changed paths, old names too; None if unclear: too many, ``head`` replaced or shared."""
    try:
        with asking(f"list the files of #{number}", _READ):
            pull = client.repo.get_pull(number).complete()
            files = list(pull.get_files())
            if len(files) < pull.changed_files or client.repo.get_pull(number).head.sha != head:
                return None
            # the check on a commit counts for every pull request of it, and forks may open several
            opened = client.repo.get_pulls() if is_from_fork(pull) else ()
            if any(one.head.sha == head and one.number != number for one in opened):
                return None
            return frozenset(
                name for file in files for name in (file.filename, file.previous_filename) if name
            )
    except Refused as refused:
        if refused.status != HTTPStatus.UNPROCESSABLE_ENTITY:  # the diff takes too long
            raise
    return None


def merge_base(client: Client, base: str, head: str) -> str | None:
    """The commit at which ``head`` left ``base``; None if GitHub does not know it."""
    with suppress(NotFound), asking(f"compare {base[:12]} with {head[:12]}", "contents: read"):
        return client.repo.compare(base, head).merge_base_commit.sha
    return None


def file_at(client: Client, path: str, ref: str) -> bytes | None:
    """The content of a regular file at a commit (also a fork's, by hash); None if missing."""
    with suppress(NotFound), asking(f"show {path} at {ref}", "contents: read"):
        found = client.repo.get_contents(path, ref)
        if isinstance(found, list) or found.type != "file":
            return None
        # Above one megabyte, GitHub omits the content; it must be fetched as a git object.
        complete = found if found.encoding == "base64" else client.repo.get_git_blob(found.sha)
        return b64decode(complete.content)
    return None


def is_from_fork(pull: PullRequest) -> bool:
    # A deleted fork has no repository.
    return pull.head.repo is None or pull.head.repo.full_name != pull.base.repo.full_name


def _of_branch(client: Client, head: str, base: str) -> list[PullRequest]:
    owner = client.name.partition("/")[0]
    with asking("list pull requests", _WRITE):
        pulls = client.repo.get_pulls(
            state="all", head=f"{owner}:{head}", sort="created", direction="desc"
        )
        own = [pull for pull in pulls if not is_from_fork(pull)]
    return sorted(own, key=lambda pull: (pull.base.ref != base, -pull.number))


def _is_queued(client: Client, pull: PullRequest) -> bool:
    """Whether it waits in a merge queue, where it has no auto-merge any more."""
    query = "query($id: ID!) {node(id: $id) {... on PullRequest {isInMergeQueue}}}"
    with suppress(Refused):
        what = f"say whether #{pull.number} is in a merge queue"
        return bool(client.query(what, query, id=pull.node_id)["node"]["isInMergeQueue"])
    return False  # a server that has no merge queues


def _awaits_confirmation(client: Client, pull: PullRequest) -> bool:
    """Whether a rule holds it back for a check that only more training can turn green."""
    # not of the rollup of all checks: it has statuses too, which need one more permission
    query = (
        "query($id: ID!, $name: String!) {node(id: $id) {... on PullRequest {commits(last: 1) "
        "{nodes {commit {checkSuites(first: 100) {nodes {checkRuns(first: 1, filterBy: {checkName: "
        "$name, checkType: LATEST}) {nodes {conclusion isRequired(pullRequestId: $id)}}}}}}}}}}"
    )
    what = f"list the required checks of #{pull.number}"
    found = client.query(what, query, "checks: write", id=pull.node_id, name=CONFIRMED)["node"]
    (suites,) = (one["commit"]["checkSuites"]["nodes"] for one in found["commits"]["nodes"])
    runs = [run for suite in suites for run in suite["checkRuns"]["nodes"]]
    return any(run["isRequired"] and run["conclusion"] != "SUCCESS" for run in runs)


def _open_one(pulls: list[PullRequest]) -> PullRequest | None:
    return next((pull for pull in pulls if pull.state == "open"), None)


def _closed(client: Client, pulls: list[PullRequest], head: str) -> str:
    if not pulls or _open_one(pulls) is not None or pulls[0].merged_at is not None:
        return ""
    moves = [event for event in _history(client, pulls[0]) if event in _BRANCH_EVENTS]
    if moves[-1:] == ["head_ref_deleted"]:
        return ""
    return (
        f"#{pulls[0].number} was closed without a merge, so training is paused: "
        f"reopen it to continue, or delete the branch {head} to start over."
    )


def _history(client: Client, pull: PullRequest) -> list[str]:
    with asking(f"show the history of pull request #{pull.number}", _READ):
        return [event.event for event in client.repo.get_issue(pull.number).get_events()]


def _create(client: Client, wanted: WantedPullRequest) -> KeptPullRequest:
    def create() -> PullRequest:
        with asking("open a pull request", _WRITE):
            return client.repo.create_pull(
                wanted.base, wanted.head, title=wanted.title, body=wanted.body, draft=wanted.draft
            )

    def find() -> PullRequest | None:
        return _open_one(_of_branch(client, wanted.head, wanted.base))

    try:
        pull = client.create_idempotent(create, find)
    except Refused as refused:
        words = refused.words.lower()
        gone = "head invalid" in words and _of_branch(client, wanted.head, wanted.base)
        if gone or "no commits between" in words:
            return KeptPullRequest(None)
        if "already exists" in words and (found := find()) is not None:
            return _update(client, found, wanted)
        if wanted.draft and "draft pull requests are not supported" in words:
            kept = _create(client, replace(wanted, draft=False))
            note = "This repository's plan has no draft pull requests: it was opened as ready."
            return replace(kept, notes=(note, *kept.notes))
        raise
    return _update(client, pull, wanted)


def _update(client: Client, pull: PullRequest, wanted: WantedPullRequest) -> KeptPullRequest:
    """Set what differs from ``wanted``; what GitHub refuses of it becomes a note."""
    notes = list[str]()
    if pull.base.ref != wanted.base:  # a person may have chosen it
        told = f"#{pull.number} asks to merge into {pull.base.ref}, but training follows "
        notes.append(f"{told}{wanted.base}: change the pull request's base, or `git.base`.")
    if pull.title != wanted.title or not same_text(pull.body, wanted.body):
        # comments and checks say the same, so the rest goes on
        with noting(notes), asking(f"edit pull request #{pull.number}", _WRITE):
            pull.edit(title=wanted.title, body=wanted.body)
    with noting(notes):
        # What was converted to a draft is held back by a person: we convert none.
        if pull.draft and not wanted.draft and "convert_to_draft" not in _history(client, pull):
            with asking(f"mark #{pull.number} as ready for review", _WRITE):
                pull.mark_ready_for_review()
    if missing := sorted({*wanted.labels} - {label.name for label in pull.labels}):
        with noting(notes), asking(f"label #{pull.number}", _WRITE):
            client.send("POST", f"/issues/{pull.number}/labels", {"labels": missing})
    return KeptPullRequest(pull.number, notes=tuple(notes))


def _merge_now(
    client: Client, pull: PullRequest, head_sha: str, method: MergeMethod, title: str
) -> None:
    for _ in range(_POLLS):  # GitHub computes the state only on request
        if pull.mergeable_state not in (None, "unknown"):
            break
        client.wait(_PAUSE)
        with asking(f"show pull request #{pull.number}", _READ):
            pull.update()
    state = pull.mergeable_state or "unknown"
    if state not in ("clean", "has_hooks", "unstable"):  # the last: of checks nobody requires
        reason = _OBSTACLES.get(state, f"GitHub calls it {state}")
        raise Refused(f"#{pull.number} was not merged: {reason}.")
    try:
        with asking(f"merge #{pull.number}", _MERGE):
            pull.merge(sha=head_sha, merge_method=method, commit_title=title or NotSet)
    except Refused:
        # If an answer was lost and the request retried, the first one did the merge.
        if not get_pull_request(client, pull.number).merged:
            raise

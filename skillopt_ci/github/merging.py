"""Merge a pull request the way a careful person would: through everything that protects base."""

from github.GithubObject import NotSet
from github.PullRequest import PullRequest as HubPullRequest

from skillopt_ci.github import pull_request
from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.failure import Refused
from skillopt_ci.github.forge import MergeMethod, MergeOutcome, Merging

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
    pull = pull_request.read(client, number)
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
        done = pull_request.read(client, pull.number).merged
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

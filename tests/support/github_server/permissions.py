"""What a workflow's own token needs for a request, as GitHub grants it.

GitHub's reference lists a permission for each operation. Where people found that it grants another
one, theirs counts: a comment of a pull request belongs to the pull request, whatever its address
says, and who may label a pull request may still not create a label.
"""

import re

from github_server.request import NOT_GRANTED, Refusal
from github_server.state import Hub

Grants = dict[str, str]

#: The permission for an operation's path; the first that matches counts.
_PERMISSIONS = (
    (r"|/collaborators/.*|/rules/.*", "metadata"),
    (r"/git/.*|/contents/.*|/compare/.*|/activity|/dispatches|/pulls/[^/]*/merge", "contents"),
    (r"/pulls.*|/issues/.*", "pull-requests"),
    (r"/check-runs.*|/commits/[^/]*/check-runs", "checks"),
    (r"/statuses/.*|/commits/[^/]*/statuses", "statuses"),
)
_QUERIES: dict[str, Grants] = {
    "viewer": {},
    "isInMergeQueue": {"pull-requests": "read"},
    "checkRuns": {"pull-requests": "read", "checks": "read"},
    "markPullRequestReadyForReview": {"pull-requests": "write", "contents": "write"},
    "enablePullRequestAutoMerge": {"pull-requests": "write", "contents": "write"},
}


def demand(hub: Hub, login: str, operation: str) -> None:
    """Refuse an operation, such as ``GET /pulls``, that the job's permissions do not cover."""
    method, _, path = operation.partition(" ")
    found = [name for pattern, name in _PERMISSIONS if re.fullmatch(pattern, path)]
    level = "read" if method == "GET" else "write"
    # nothing that a job can be granted lets it see secrets or settings
    if not _grants(hub, login, found[0] if found else "administration", level):
        raise NOT_GRANTED


def cover_query(hub: Hub, login: str, query: str) -> bool:
    needed = next(grants for word, grants in _QUERIES.items() if word in query)
    return all(_grants(hub, login, *one) for one in needed.items())


def may_push(hub: Hub, login: str | None) -> bool:
    return login is not None and _grants(hub, login, "contents", "write")


def demand_labels(hub: Hub, login: str, names: list[str]) -> None:
    if set(names) - hub.labels and not _grants(hub, login, "issues", "write"):
        detail = {"resource": "Repository", "field": "label", "code": "unauthorized"}
        raise Refusal(
            403, "You do not have permission to create labels on this repository.", detail
        )
    hub.labels |= set(names)


def _grants(hub: Hub, login: str, name: str, level: str) -> bool:
    if not login.endswith("[bot]") or (name, level) == ("metadata", "read"):
        return True
    return hub.permissions.get(name) in (level, "write")

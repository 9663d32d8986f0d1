"""The few GraphQL queries that REST has no counterpart for."""

from typing import Any

from github_server import permissions, pulls
from github_server.state import Hub, Json


def answer(hub: Hub, login: str, query: str, variables: Json) -> Json:
    """Answer a query or mutation with data or errors."""
    if not permissions.cover_query(hub, login, query):
        return _error("Resource not accessible by integration", "FORBIDDEN")
    if "viewer" in query:
        return {"data": {"viewer": {"login": login}}}
    if "isInMergeQueue" in query:
        facts = hub.pulls[int(variables["id"].removeprefix("PR_"))]
        return {"data": {"node": {"isInMergeQueue": facts.get("queued", False)}}}
    if "checkRuns" in query:
        facts = hub.pulls[int(variables["id"].removeprefix("PR_"))]
        runs = [
            {
                "conclusion": (each.get("conclusion") or "").upper() or None,
                "isRequired": each["name"] == hub.required_check,
            }
            for each in hub.checks.values()
            if (each["head_sha"], each["name"]) == (facts["sha"], variables["name"])
        ]
        suites = {"nodes": [{"checkRuns": {"nodes": runs}}]}
        commits = {"nodes": [{"commit": {"checkSuites": suites}}]}
        return {"data": {"node": {"commits": commits}}}
    wanted = variables["input"]
    facts = hub.pulls[int(wanted["pullRequestId"].removeprefix("PR_"))]
    if "markPullRequestReadyForReview" in query:
        facts["draft"] = False
        return _done("markPullRequestReadyForReview", pullRequest={"isDraft": False})
    assert "enablePullRequestAutoMerge" in query
    return _enable(hub, facts, wanted)


def _enable(hub: Hub, facts: Json, wanted: Json) -> Json:
    if not hub.auto_merge:
        return _error("Auto merge is not allowed for this repository")
    if (state := pulls.state(hub, facts)) in ("clean", "unstable"):
        return _error(f"Pull request Pull request is in {state} status")
    if wanted.get("expectedHeadOid", facts["sha"]) != facts["sha"]:
        return _error("Head sha didn't match the expected one")
    facts["auto_merge"] = {
        "enabled_by": {"login": "x"}, "merge_method": wanted["mergeMethod"].lower(),
        "commit_title": wanted.get("commitHeadline", ""), "commit_message": "",
    }  # fmt: skip
    return _done("enablePullRequestAutoMerge", actor=None)


def _done(name: str, **fields: Any) -> Json:
    return {"data": {name: {"clientMutationId": None, **fields}}}


def _error(message: str, kind: str = "UNPROCESSABLE") -> Json:
    return {"data": None, "errors": [{"type": kind, "message": message}]}

"""Pull requests, which follow the branches of the real repository."""

from github_server import permissions, shapes
from github_server.request import Answer, Refusal, Request, check_length, known
from github_server.state import ACTIONS, Hub, Json

_STATUS = {"A": "added", "M": "modified", "D": "removed", "T": "changed"}
_MERGEABLE = ("clean", "unstable")


def follow(hub: Hub) -> None:
    """Do what GitHub does by itself after pushes and checks."""
    for facts in hub.pulls.values():
        if facts["state"] != "open" or facts["head_repo"] != hub.name:
            continue
        tip, base = hub.bare.tip(facts["head"]), hub.bare.tip(facts["base"])
        if tip is None:
            facts["state"] = "closed"
            hub.event(facts["number"], "closed")
            hub.event(facts["number"], "head_ref_deleted")
            continue
        facts["sha"] = tip
        if base is not None and hub.bare.has(base, tip):
            _mark_merged(hub, facts)
        elif facts["auto_merge"] and state(hub, facts) in _MERGEABLE:
            merge_now(hub, facts, facts["auto_merge"]["merge_method"], facts["title"])


def state(hub: Hub, facts: Json) -> str:
    """Say what is in the way of a merge, in GitHub's words."""
    base = hub.bare.tip(facts["base"])
    if facts["draft"]:
        return "draft"
    if base is None or hub.bare.merged_tree(base, facts["sha"]) is None:
        return "dirty"
    passed = {
        run["name"]: run.get("conclusion") in ("success", "neutral", "skipped")
        for run in hub.checks.values()
        if run["head_sha"] == facts["sha"]
    }
    if hub.required_check and not passed.get(hub.required_check):
        return "blocked"
    return "clean" if all(passed.values()) else "unstable"


def merge_now(hub: Hub, facts: Json, method: str, title: str) -> str:
    commit = hub.bare.merge(facts["base"], facts["sha"], method, title)
    _mark_merged(hub, facts)
    return commit


def _mark_merged(hub: Hub, facts: Json) -> None:
    facts |= {"state": "closed", "merged_at": hub.moment()}
    hub.event(facts["number"], "merged")
    hub.event(facts["number"], "closed")


def list_pulls(request: Request) -> Answer:
    hub, query = request.hub, request.query
    found = [
        shapes.pull(hub, facts)
        for facts in hub.pulls.values()
        if query.get("state", "open") in ("all", facts["state"])
        and query.get("base", facts["base"]) == facts["base"]
        and query.get("head", "").lower() in ("", _label(facts).lower())
    ]
    return Answer(200, found[::-1])


def _label(facts: Json) -> str:
    return f"{(facts['head_repo'] or '').partition('/')[0]}:{facts['head']}"


def open_pull(request: Request) -> Answer:
    hub, body = request.hub, request.body
    check_length(body.get("body") or "")
    if request.login == ACTIONS and not hub.actions_may_open:
        raise Refusal(403, "GitHub Actions is not permitted to create or approve pull requests.")
    if body.get("draft") and not hub.drafts:
        raise Refusal(422, "Draft pull requests are not supported in this repository.")
    tip, base = hub.bare.tip(body["head"]), hub.bare.tip(body["base"])
    if tip is None or base is None:
        field = "head" if tip is None else "base"
        detail = {"resource": "PullRequest", "field": field, "code": "invalid"}
        raise Refusal(422, "Validation Failed", detail)
    if hub.bare.has(base, tip):
        words = f"No commits between {body['base']} and {body['head']}"
        raise Refusal(422, "Validation Failed", {"code": "custom", "message": words})
    if any(
        (each["state"], each["head_repo"], each["head"]) == ("open", hub.name, body["head"])
        for each in hub.pulls.values()
    ):
        words = f"A pull request already exists for {hub.owner}:{body['head']}."
        raise Refusal(422, "Validation Failed", {"code": "custom", "message": words})
    return Answer(201, shapes.pull(hub, add(hub, request.login, tip, **body)))


def add(hub: Hub, login: str, sha: str, **body: object) -> Json:
    """Enter a pull request; tests also enter those of forks."""
    number = len(hub.pulls) + 1
    hub.pulls[number] = {
        "number": number, "login": login, "sha": sha, "state": "open", "draft": False,
        "merged_at": None, "auto_merge": None, "labels": [], "head_repo": hub.name,
        "title": "", "body": None, **body,
    }  # fmt: skip
    return hub.pulls[number]


def show(request: Request) -> Answer:
    facts = known(request.hub.pulls, request.number("pull_number"))
    looks = facts["looks"] = facts.get("looks", 0) + 1
    ready = looks > request.hub.looks_until_mergeable
    facts["mergeable_state"] = state(request.hub, facts) if ready else "unknown"
    return Answer(200, shapes.pull(request.hub, facts))


def edit(request: Request) -> Answer:
    facts = known(request.hub.pulls, request.number("pull_number"))
    check_length(request.body.get("body") or "")
    facts |= request.body
    return Answer(200, shapes.pull(request.hub, facts))


def files(request: Request) -> Answer:
    hub = request.hub
    facts = known(hub.pulls, request.number("pull_number"))
    listed = hub.bare.changed(str(hub.bare.tip(facts["base"])), facts["sha"])[:3000]
    return Answer(200, [{"filename": path, "status": _STATUS[word]} for word, path in listed])


def merge(request: Request) -> Answer:
    hub = request.hub
    facts = known(hub.pulls, request.number("pull_number"))
    if request.body.get("sha", facts["sha"]) != facts["sha"]:
        raise Refusal(409, "Head branch was modified. Review and try the merge again.")
    if facts["state"] != "open" or state(hub, facts) not in _MERGEABLE:
        raise Refusal(405, "Pull Request is not mergeable")
    title = request.body.get("commit_title") or f"Merge pull request #{facts['number']}"
    commit = merge_now(hub, facts, request.body.get("merge_method", "merge"), title)
    return Answer(200, {"sha": commit, "merged": True, "message": "Pull Request merged"})


def label(request: Request) -> Answer:
    facts = known(request.hub.pulls, request.number("issue_number"))
    permissions.demand_labels(request.hub, request.login, request.body["labels"])
    facts["labels"] += [name for name in request.body["labels"] if name not in facts["labels"]]
    return Answer(200, shapes.pull(request.hub, facts)["labels"])


def events(request: Request) -> Answer:
    number = request.number("issue_number")
    return Answer(200, [each for each in request.hub.events if each["issue"] == number])


def activity(request: Request) -> Answer:
    name, ref = f"{request.params['owner']}/{request.params['repo']}", request.query.get("ref")
    there = [one for one in request.hub.pushes if (one["repository"], one["ref"]) == (name, ref)]
    return Answer(200, [{**each, "node_id": "A", "before": "0" * 40} for each in there[::-1]])


ROUTES = {
    "GET /activity": activity,
    "GET /pulls": list_pulls,
    "POST /pulls": open_pull,
    "GET /pulls/{pull_number}": show,
    "PATCH /pulls/{pull_number}": edit,
    "GET /pulls/{pull_number}/files": files,
    "PUT /pulls/{pull_number}/merge": merge,
    "POST /issues/{issue_number}/labels": label,
    "GET /issues/{issue_number}/events": events,
}

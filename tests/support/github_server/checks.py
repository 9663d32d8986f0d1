"""Check runs, which only apps may make, and commit statuses."""

from github_server import shapes
from github_server.request import Answer, Refusal, Request, known
from github_server.state import Json


def list_checks(request: Request) -> Answer:
    hub, query = request.hub, request.query
    there = [
        shapes.check(hub, each)
        for each in hub.checks.values()
        if each["head_sha"] == request.params["ref"]
        and query.get("check_name", each["name"]) == each["name"]
    ]
    return Answer(200, there, key="check_runs")


def create(request: Request) -> Answer:
    hub = request.hub
    if not request.login.endswith("[bot]"):
        raise Refusal(403, "You must authenticate via a GitHub App.")
    key = next(hub.ids)
    app = request.login.removesuffix("[bot]")
    hub.checks[key] = {"id": key, "app": app, "annotations": [], "output": {}, "status": "queued"}
    _set(hub.checks[key], request.body)
    return Answer(201, shapes.check(hub, hub.checks[key]))


def edit(request: Request) -> Answer:
    facts = known(request.hub.checks, request.number("check_run_id"))
    if facts["app"] != request.login.removesuffix("[bot]"):
        raise Refusal(403, "Invalid app_id `1` - check run can only be modified by its creator.")
    _set(facts, request.body)
    return Answer(200, shapes.check(request.hub, facts))


def _set(facts: Json, body: Json) -> None:
    annotations = body.get("output", {}).get("annotations", [])
    if len(annotations) > 50:
        raise Refusal(422, "Invalid request.", "No more than 50 annotations are allowed.")
    facts["annotations"] += annotations
    facts |= body


def list_statuses(request: Request) -> Answer:
    hub = request.hub
    there = [each for each in hub.statuses if each["sha"] == request.params["ref"]]
    return Answer(200, [shapes.status(hub, each) for each in there[::-1]])


def set_status(request: Request) -> Answer:
    hub = request.hub
    facts = {"id": next(hub.ids), "sha": request.params["sha"], "target_url": None, **request.body}
    hub.statuses.append(facts)
    return Answer(201, shapes.status(hub, facts))


ROUTES = {
    "GET /commits/{ref}/check-runs": list_checks,
    "POST /check-runs": create,
    "PATCH /check-runs/{check_run_id}": edit,
    "GET /commits/{ref}/statuses": list_statuses,
    "POST /statuses/{sha}": set_status,
}

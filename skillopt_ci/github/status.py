"""Commit statuses: the little brother of check runs, which every token may set."""

from typing import Any

from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.forge import Change, KeptCheck, WantedCheck
from skillopt_ci.github.texts import STATUS, clip_line

STATUSES_WRITE = "statuses: write"
#: There is no neutral one: what is inconclusive stays pending, neither green nor red.
_STATES = {
    "success": "success",
    "skipped": "success",
    "failure": "failure",
    "cancelled": "error",
    "action_required": "failure",
}


def keep_status(client: Client, wanted: WantedCheck) -> KeptCheck:
    """Set the status of that name unless it is the newest one already."""
    state = _STATES.get(wanted.conclusion or "", "pending")
    description = clip_line(wanted.title, STATUS)
    newest = _newest(client, wanted)
    if newest is not None and (newest["state"], newest["description"]) == (state, description):
        return KeptCheck("status", _url(newest), Change.UNCHANGED)
    with asking(f"set the status {wanted.name}", STATUSES_WRITE):
        content = {"state": state, "context": wanted.name, "description": description}
        if wanted.details_url:
            content["target_url"] = wanted.details_url
        made = client.send("POST", f"/statuses/{wanted.head_sha}", content)
    change = Change.CREATED if newest is None else Change.UPDATED
    return KeptCheck("status", _url(made), change)


def _newest(client: Client, wanted: WantedCheck) -> dict[str, Any] | None:
    with asking(f"list the statuses of {wanted.head_sha[:12]}", "statuses: read"):
        statuses = client.listing(f"/commits/{wanted.head_sha}/statuses")
        return next((each for each in statuses if each["context"] == wanted.name), None)


def _url(status: dict[str, Any]) -> str:
    return str(status["target_url"] or status["url"])

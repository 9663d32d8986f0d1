"""Checks on a commit: a check run, or a commit status where the token may not make one."""

from typing import Any

from github.CheckRun import CheckRun

from skillopt_ci.github.client import (
    ANNOTATION,
    STATUS,
    SUMMARY,
    TITLE,
    Client,
    PermissionMissing,
    asking,
    clip_line,
    clip_text,
    create_once,
    same_text,
)
from skillopt_ci.github.types import Annotation, Change, KeptCheck, WantedCheck

# Commit statuses: the little brother of check runs, which every token may set.

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


CHECKS_WRITE = "checks: write"
_BATCH = 50
"""Most annotations of one request."""


def keep_check(client: Client, me: str, wanted: WantedCheck) -> KeptCheck:
    """Create or complete the check; only apps may, so that others set a commit status."""
    try:
        return _keep_run(client, me, wanted)
    except PermissionMissing as missing:
        try:
            return keep_status(client, wanted)
        except PermissionMissing:
            raise missing from None


def _keep_run(client: Client, me: str, wanted: WantedCheck) -> KeptCheck:
    found, change = _find(client, me, wanted), Change.UNCHANGED
    there = _BATCH
    if found is None:
        found, change = _create(client, me, wanted), Change.CREATED
    else:
        there = found.output.annotations_count or 0
    missing = [annotation_data(each) for each in wanted.annotations[there:]]
    batches = [missing[start : start + _BATCH] for start in range(0, len(missing), _BATCH)]
    if not batches and not _agrees(found, wanted):
        batches = [[]]
    for batch in batches:
        with asking(f"update the check {wanted.name}", CHECKS_WRITE):
            found.edit(**_fields(wanted, batch))
        change = change if change == Change.CREATED else Change.UPDATED
    return KeptCheck("check_run", found.html_url, change)


def _find(client: Client, me: str, wanted: WantedCheck) -> CheckRun | None:
    """Return the newest run of that name by our own app: GitHub lets nobody else edit it."""
    with asking(f"list the checks of {wanted.head_sha[:12]}", "checks: read"):
        runs = client.repo.get_commit(wanted.head_sha).get_check_runs(check_name=wanted.name)
        own = [run for run in runs if run.app is None or run.app.slug == me.removesuffix("[bot]")]
    return max(own, key=lambda run: run.id, default=None)


def _create(client: Client, me: str, wanted: WantedCheck) -> CheckRun:
    first = [annotation_data(each) for each in wanted.annotations[:_BATCH]]

    def create() -> CheckRun:
        with asking(f"create the check {wanted.name}", CHECKS_WRITE):
            return client.repo.create_check_run(
                wanted.name, wanted.head_sha, **_fields(wanted, first)
            )

    return create_once(create, lambda: _find(client, me, wanted), client.patience.wait)


def _agrees(run: CheckRun, wanted: WantedCheck) -> bool:
    return (
        run.conclusion == wanted.conclusion
        and run.output.title == clip_line(wanted.title, TITLE)
        and same_text(run.output.summary, clip_text(wanted.summary, SUMMARY))
    )


def _fields(wanted: WantedCheck, annotations: list[dict[str, str | int]]) -> dict[str, Any]:
    """Return what a request says about the check; annotations add to those that are there."""
    output: dict[str, object] = {
        "title": clip_line(wanted.title, TITLE),
        "summary": clip_text(wanted.summary, SUMMARY),
    }
    if annotations:
        output["annotations"] = annotations
    fields: dict[str, Any] = {"status": "in_progress", "output": output}
    if wanted.conclusion is not None:
        fields |= {"status": "completed", "conclusion": wanted.conclusion}
    if wanted.details_url:
        fields["details_url"] = wanted.details_url
    return fields


def annotation_data(annotation: Annotation) -> dict[str, str | int]:
    """Return an annotation as GitHub wants it."""
    message = annotation.message.encode("utf-8", "replace")[:ANNOTATION].decode("utf-8", "ignore")
    data: dict[str, str | int] = {
        "path": annotation.path,
        "start_line": annotation.start_line,
        "end_line": annotation.end_line,
        "annotation_level": annotation.level,
        "message": message or "—",
    }
    return data | ({"title": clip_line(annotation.title, TITLE - 1)} if annotation.title else {})

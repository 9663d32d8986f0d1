"""Checks on a commit: a check run, or a commit status where the token may not make one."""

from typing import Any

from github.CheckRun import CheckRun

from skillopt_ci.github.client import (
    ANNOTATION,
    STATUS,
    SUMMARY,
    TITLE,
    Client,
    clip_line,
    clip_text,
    same_text,
)
from skillopt_ci.github.errors import PermissionMissing, asking
from skillopt_ci.github.types import Annotation, Change, KeptCheck, WantedCheck

#: More are not taken in one request, and nobody reads them.
_MOST_ANNOTATIONS = 50
#: The states of a commit status. None is neutral: what is inconclusive stays pending, neither
#: green nor red.
_STATES = {
    "success": "success",
    "skipped": "success",
    "failure": "failure",
    "cancelled": "error",
    "action_required": "failure",
}


def keep_check(client: Client, wanted: WantedCheck) -> KeptCheck:
    """Create or complete the check of that name on that commit.

    Only apps may make check runs; with other tokens it is a commit status.
    """
    try:
        return _keep_run(client, wanted)
    except PermissionMissing as missing:
        try:
            return _keep_status(client, wanted)
        except PermissionMissing:
            raise missing from None


def _keep_run(client: Client, wanted: WantedCheck) -> KeptCheck:
    output: dict[str, object] = {
        "title": clip_line(client.redact(wanted.title), TITLE),
        "summary": clip_text(client.redact(wanted.summary), SUMMARY),
    }
    fields: dict[str, Any] = {"status": "in_progress", "output": output}
    if wanted.conclusion is not None:
        fields |= {"status": "completed", "conclusion": wanted.conclusion}
    if wanted.details_url:
        fields["details_url"] = wanted.details_url
    notes = [_annotation(note, client) for note in wanted.annotations[:_MOST_ANNOTATIONS]]
    # GitHub adds annotations to those that are there
    annotated = {**fields, "output": {**output, "annotations": notes}} if notes else fields

    def find() -> CheckRun | None:
        """Return the newest run of that name by our own app: GitHub lets nobody else edit it."""
        app = client.login.removesuffix("[bot]")
        with asking(f"list the checks of {wanted.head_sha[:12]}", "checks: read"):
            runs = client.repo.get_commit(wanted.head_sha).get_check_runs(check_name=wanted.name)
            own = [run for run in runs if run.app is None or run.app.slug == app]
        return max(own, key=lambda run: run.id, default=None)

    def create() -> CheckRun:
        with asking(f"create the check {wanted.name}", "checks: write"):
            return client.repo.create_check_run(wanted.name, wanted.head_sha, **annotated)

    run = find()
    if run is None:
        client.create_idempotent(create, find)
        return KeptCheck("check_run", Change.CREATED)
    to_annotate = bool(notes) and not run.output.annotations_count
    if (
        not to_annotate
        and (run.conclusion, run.output.title) == (wanted.conclusion, output["title"])
        and same_text(run.output.summary, str(output["summary"]))
    ):
        return KeptCheck("check_run", Change.UNCHANGED)
    with asking(f"update the check {wanted.name}", "checks: write"):
        run.edit(**(annotated if to_annotate else fields))
    return KeptCheck("check_run", Change.UPDATED)


def _annotation(note: Annotation, client: Client) -> dict[str, str | int]:
    message = client.redact(note.message).encode("utf-8", "replace")[:ANNOTATION]
    data: dict[str, str | int] = {
        "path": note.path,
        "start_line": note.start_line,
        "end_line": note.end_line,
        "annotation_level": note.level,
        "message": message.decode("utf-8", "ignore") or "—",
    }
    if note.title:
        data["title"] = clip_line(client.redact(note.title), TITLE - 1)
    return data


def _keep_status(client: Client, wanted: WantedCheck) -> KeptCheck:
    """Set the commit status of that name, unless the newest one says the same."""
    content = {
        "state": _STATES.get(wanted.conclusion or "", "pending"),
        "context": wanted.name,
        "description": clip_line(client.redact(wanted.title), STATUS),
    }
    with asking(f"list the statuses of {wanted.head_sha[:12]}", "statuses: read"):
        listed = client.listing(f"/commits/{wanted.head_sha}/statuses")
        status = next((one for one in listed if one["context"] == wanted.name), None)
    change = Change.CREATED if status is None else Change.UPDATED
    if status is not None and all(status[name] == value for name, value in content.items()):
        change = Change.UNCHANGED
    else:
        if wanted.details_url:
            content["target_url"] = wanted.details_url
        with asking(f"set the status {wanted.name}", "statuses: write"):
            client.send("POST", f"/statuses/{wanted.head_sha}", content)
    return KeptCheck("status", change)

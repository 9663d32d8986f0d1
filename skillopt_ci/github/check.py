"""Checks on a commit: a check run, or a commit status where the token may not make one."""

from typing import Any

from github.CheckRun import CheckRun

from skillopt_ci.github import status
from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.failure import PermissionMissing
from skillopt_ci.github.forge import Annotation, Change, KeptCheck, WantedCheck
from skillopt_ci.github.once import create_once
from skillopt_ci.github.texts import ANNOTATION, SUMMARY, TITLE, clip_line, clip_text, same_text

CHECKS_WRITE = "checks: write"
_BATCH = 50
"""Most annotations of one request."""


def keep_check(client: Client, me: str, wanted: WantedCheck) -> KeptCheck:
    """Create or complete the check; only apps may, so that others set a commit status."""
    try:
        return _keep_run(client, me, wanted)
    except PermissionMissing as missing:
        try:
            return status.keep_status(client, wanted)
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

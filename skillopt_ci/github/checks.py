"""Checks on a commit."""

from dataclasses import asdict
from typing import Any

from github.CheckRun import CheckRun

from skillopt_ci.errors import LostRace
from skillopt_ci.github.client import Client, asking, same_text
from skillopt_ci.github.comments import run_of
from skillopt_ci.github.types import UNDECIDED, Annotation, WantedCheck
from skillopt_ci.text import collapsed


def keep_check(client: Client, wanted: WantedCheck) -> None:
    """Create or complete the check of that name on that commit; needs an app's token.

    Raises LostRace if a verdict stays: a newer workflow run's, or one that ``wanted`` yields to.
    """

    def find() -> CheckRun | None:
        """The newest run of that name by our own app: only its creator may edit a run."""
        app = client.login.removesuffix("[bot]")
        with asking(f"list the checks of {wanted.head_sha[:12]}", "checks: write"):
            runs = client.repo.get_commit(wanted.head_sha).get_check_runs(check_name=wanted.name)
            own = [run for run in runs if run.app is None or run.app.slug == app]
        return max(own, key=lambda run: run.id, default=None)

    def create() -> CheckRun:
        with asking(f"create the check {wanted.name}", "checks: write"):
            return client.repo.create_check_run(wanted.name, wanted.head_sha, **fields)

    fields, missing = _fields(client, wanted, wanted.annotations), tuple[Annotation, ...]()
    run, output = find(), fields["output"]
    if run and run.conclusion not in (None, "cancelled") and run.output.title not in UNDECIDED:
        ours, theirs = run_of(wanted.summary), run_of(run.output.summary or "")
        if 0 < ours < theirs or (wanted.yields and not (wanted.again and theirs < ours)):
            raise LostRace(f"the check {wanted.name} stays as it is: {run.conclusion}")
    if run is None or (run.conclusion and wanted.conclusion is None):
        run = client.create_idempotent(create, find)  # a concluded check cannot wait again
    else:
        missing = wanted.annotations[run.output.annotations_count or 0 :]
    agrees = (
        run.conclusion == wanted.conclusion
        and run.output.title == output["title"]
        and same_text(run.output.summary, output["summary"])
    )
    if missing or not agrees:
        with asking(f"update the check {wanted.name}", "checks: write"):
            run.edit(**_fields(client, wanted, missing))


def _fields(client: Client, wanted: WantedCheck, notes: tuple[Annotation, ...]) -> dict[str, Any]:
    output: dict[str, object] = {
        "title": collapsed(client.redact(wanted.title))[:255],  # GitHub takes no more
        "summary": client.redact(wanted.summary),
    }
    if notes:
        output["annotations"] = [
            asdict(note)
            | {"title": client.redact(note.title), "message": client.redact(note.message)}
            for note in notes
        ]
    fields: dict[str, Any] = {"status": "in_progress", "output": output}
    if wanted.conclusion is not None:
        fields |= {"status": "completed", "conclusion": wanted.conclusion}
    if wanted.details_url:
        fields["details_url"] = wanted.details_url
    return fields

"""Checks on a commit."""

from dataclasses import dataclass
from typing import Any

from github.CheckRun import CheckRun

from skillopt_ci.github.client import Client, same_text
from skillopt_ci.github.errors import asking
from skillopt_ci.github.types import Annotation, Change, WantedCheck
from skillopt_ci.text import one_line

#: Most annotations of one request.
_BATCH = 50
#: Characters of a check's title.
_TITLE = 255


def keep_check(client: Client, wanted: WantedCheck) -> Change:
    """Create or complete the check of that name on that commit; only apps' tokens may."""
    return _CheckRun(client, wanted).keep()


@dataclass(frozen=True, slots=True)
class _CheckRun:
    client: Client
    wanted: WantedCheck

    def keep(self) -> Change:
        notes, change = self.wanted.annotations, Change.UNCHANGED
        run = self.find()
        if run is None:
            run = self.client.create_idempotent(lambda: self.create(notes[:_BATCH]), self.find)
            change, there = Change.CREATED, _BATCH
        else:
            there = run.output.annotations_count or 0
        batches = [notes[start : start + _BATCH] for start in range(there, len(notes), _BATCH)]
        if not batches and not self.agrees(run):
            batches = [()]
        for batch in batches:
            with asking(f"update the check {self.wanted.name}", "checks: write"):
                run.edit(**self.fields(batch))
            change = change if change == Change.CREATED else Change.UPDATED
        return change

    def find(self) -> CheckRun | None:
        """Return the newest run of that name by our own app: GitHub lets nobody else edit it."""
        app = self.client.login.removesuffix("[bot]")
        with asking(f"list the checks of {self.wanted.head_sha[:12]}", "checks: read"):
            commit = self.client.repo.get_commit(self.wanted.head_sha)
            runs = commit.get_check_runs(check_name=self.wanted.name)
            own = [run for run in runs if run.app is None or run.app.slug == app]
        return max(own, key=lambda run: run.id, default=None)

    def create(self, notes: tuple[Annotation, ...]) -> CheckRun:
        with asking(f"create the check {self.wanted.name}", "checks: write"):
            return self.client.repo.create_check_run(
                self.wanted.name, self.wanted.head_sha, **self.fields(notes)
            )

    def agrees(self, run: CheckRun) -> bool:
        output = self.fields(())["output"]
        return (
            run.conclusion == self.wanted.conclusion
            and run.output.title == output["title"]
            and same_text(run.output.summary, output["summary"])
        )

    def fields(self, notes: tuple[Annotation, ...]) -> dict[str, Any]:
        """Return what a request says about the check; annotations add to those that are there."""
        wanted, redact = self.wanted, self.client.redact
        output: dict[str, object] = {
            "title": one_line(redact(wanted.title))[:_TITLE],
            "summary": redact(wanted.summary),
        }
        if notes:
            output["annotations"] = [_annotation(note, self.client) for note in notes]
        fields: dict[str, Any] = {"status": "in_progress", "output": output}
        if wanted.conclusion is not None:
            fields |= {"status": "completed", "conclusion": wanted.conclusion}
        if wanted.details_url:
            fields["details_url"] = wanted.details_url
        return fields


def _annotation(note: Annotation, client: Client) -> dict[str, str | int]:
    data: dict[str, str | int] = {
        "path": note.path,
        "start_line": note.start_line,
        "end_line": note.end_line,
        "annotation_level": note.level,
        "message": client.redact(note.message),
    }
    if note.title:
        data["title"] = client.redact(note.title)
    return data

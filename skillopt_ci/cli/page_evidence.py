"""Gather what the report tells of: the record of a run, and the texts of its skill."""

from collections.abc import Iterator, Mapping, Sequence

from skillopt_ci.cli.evidence import gather
from skillopt_ci.cli.page_attempts import recorded_attempts
from skillopt_ci.cli.page_effects import edit_effects
from skillopt_ci.cli.reader import RunReader
from skillopt_ci.cli.run_view import view
from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.report.html_charts import anchor
from skillopt_ci.report.html_data import Evidence, Version
from skillopt_ci.report.view import RunView


def page_evidence(reader: RunReader, redact: Redact = unchanged) -> Evidence:
    """Read a whole run; a shallow clone is deepened as far as skill texts are missing.

    The attempts come from this machine's record, and pass ``redact``.
    """
    known = gather(reader)
    run = view(reader, newest=max(len(reader.history), 1))
    return Evidence(
        run=run,
        versions=tuple(_versions(run, known.texts)),
        candidates=dict(_candidates(run, known.texts)),
        meta_skill=(reader.read(reader.folder.meta_skill) or "").strip(),
        attempts=recorded_attempts(reader, run, redact),
        effects=edit_effects(run.steps),
        first=known.baseline,
    )


def _versions(run: RunView, texts: Mapping[str, str]) -> Iterator[Version]:
    """Each text that was the current one, as far as commits with it can still be reached."""
    before = ""
    for entry in run.history:
        text = texts.get(entry.skill_sha256)
        if text is None or entry.skill_sha256 == before:
            continue
        before = entry.skill_sha256
        yield Version(_label(entry), text, _origin(entry), _commit(run, entry))


def _label(entry: HistoryEntry) -> str:
    names = {
        "start": "at the start",
        "step": f"step {entry.step}",
        "notes": f"reminders of step {entry.step}",
        "slow_update": f"end of epoch {entry.epoch}",
        "measure": f"by hand, after step {entry.step}",
    }
    return names.get(entry.kind, entry.kind.replace("_", " "))


def _origin(entry: HistoryEntry) -> str:
    return "" if entry.kind == "measure" else anchor(entry)


def _commit(run: RunView, entry: HistoryEntry) -> str:
    if entry.kind == "step":
        return run.place(entry.step).verdict
    return run.place(entry.epoch, "slow_update").verdict if entry.kind == "slow_update" else ""


def _candidates(run: RunView, texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    made: Sequence[tuple[str, str, str]] = [
        *(
            (f"step-{one.step}", one.proposal.skill_before, one.proposal.skill_after)
            for one in run.steps
        ),
        *((f"epoch-{one.epoch}", one.skill_before, one.skill_after) for one in run.epochs),
    ]
    for name, before, after in made:
        if before in texts and after in texts and before != after:
            yield name, (texts[before], texts[after])

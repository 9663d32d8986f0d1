from skillopt_ci.ledger.records import (
    Decision,
    EditRecord,
    NotesRecord,
    ProposalRecord,
    RefusedNote,
    RolloutRecord,
)
from skillopt_ci.report.commits import headline
from skillopt_ci.report.words import notes_gist, notes_verdict, refusals, reminders

APPLIED = EditRecord(op="append", content="A rule.", status="applied_append")
REFUSED = EditRecord(op="append", content="x", status="skipped_guard", reason="it is\nevil")


def proposal(
    *edits: EditRecord, notes: NotesRecord | None = None, refused: str = ""
) -> ProposalRecord:
    return ProposalRecord(
        rollout=RolloutRecord(hard=0, soft=0, n=1, errors=0),
        n_failure_patches=1,
        n_success_patches=0,
        n_edits_merged=len(edits),
        edit_budget=4,
        selection="untouched",
        edits=edits,
        notes=notes,
        refused=refused,
        skill_before="a",
        skill_after="b",
        config_sha256="",
    )


def noting(*added: str, **more: object) -> NotesRecord:
    return NotesRecord(proposed=len(added), added=added, appendix=added, **more)  # type: ignore[arg-type]


def decision(action: str, notes: Decision | None = None) -> Decision:
    return Decision(
        action=action,  # type: ignore[arg-type]
        reason="so it is",
        metric="hard",
        score_before=0.5,
        score_after=0.25,
        notes=notes,
    )


def test_the_gist_names_the_notes_after_the_edits() -> None:
    assert headline(proposal(APPLIED, notes=noting("Look."))) == "A rule; note “Look”"
    assert headline(proposal(notes=noting("Look.", "Count."))) == "notes “Look”; “Count”"
    assert headline(proposal(REFUSED)) == "no change"
    assert notes_gist(proposal(APPLIED)) == ""


def test_each_reminder_has_a_line_and_condensing_has_one() -> None:
    notes = NotesRecord(proposed=1, added=("Look.",), appendix=("Both.",), consolidated_from=3)
    assert list(reminders(proposal(notes=notes))) == [
        "remind of “Look.”",
        "condense 3 reminders to 1",
    ]


def test_refusals_tell_the_reason_and_not_the_text() -> None:
    notes = noting(refused=(RefusedNote(note="secret", reason="it is dark"),))
    told = refusals(proposal(APPLIED, REFUSED, notes=notes, refused="it is new"))
    assert told == (
        "Refused by the guard:\n\n- edit 2: it is evil\n- the new document: it is new\n"
        "- a note: it is dark"
    )
    assert refusals(proposal(APPLIED)) == ""


def test_the_fate_of_notes_without_their_edits_is_told() -> None:
    noted = proposal(APPLIED, notes=noting("Look."))
    kept = notes_verdict(noted, decision("reject", decision("accept_notes")))
    assert kept == "The next commit keeps 1 reminder, measured alone (0.250): so it is."
    dropped = notes_verdict(noted, decision("reject", decision("reject")))
    assert dropped.startswith("Dropped were also 1 reminder")
    assert notes_verdict(noted, decision("accept")) == ""


def test_a_candidate_of_notes_alone_changes_no_body() -> None:
    assert not proposal(notes=noting("Look.", alone=True)).body_changed
    assert proposal(APPLIED, notes=noting("Look.")).body_changed

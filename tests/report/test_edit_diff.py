import pytest
from run_views import entry, record

from skillopt_ci.ledger.records import EditRecord, ReviewerNoteRecord
from skillopt_ci.report.comment import edit_parts

PROPOSAL = record(entry(1, action="accept", score_before=0.1, score_after=0.2)).proposal


def edit(op: str, **values: str) -> EditRecord:
    return EditRecord.model_validate({"op": op, "status": f"applied_{op}", **values})


def parts(*edits: EditRecord, **changes: object) -> str:
    return "\n\n".join(edit_parts(PROPOSAL.model_copy(update={"edits": edits, **changes})))


@pytest.mark.parametrize(
    ("change", "diff"),
    [
        (edit("append", content="new\nlines\n"), "+new\n+lines"),
        (edit("insert_after", target="here", content="new"), " here\n+new"),
        (edit("replace", target="old\ntext", content="new"), "-old\n-text\n+new"),
        (edit("delete", target="old"), "-old"),
    ],
)
def test_every_edit_is_a_diff(change: EditRecord, diff: str) -> None:
    assert f"```diff\n{diff}\n```" in parts(change)


def test_an_edit_names_the_reviewers_that_it_follows() -> None:
    note = ReviewerNoteRecord(id="review-7", author="@ada", text="Be kind")
    kind = edit("append", content="Be kind").model_copy(update={"note_ids": ("review-7", "#1*x*")})
    text = parts(kind, reviewer_notes=(note,))
    assert "· follows (at)ada (review-7), somebody (no. 1&#42;x&#42;)" in text
    assert "follows" not in parts(edit("append", content="Be kind"), reviewer_notes=(note,))


def test_an_edit_that_follows_many_notes_names_the_first_ones() -> None:
    ids = tuple(f"review-{number}" for number in range(9))
    eager = edit("append", content="x").model_copy(update={"note_ids": ids})
    assert "somebody (review-4), 4 more" in parts(eager)


def test_what_was_not_applied_is_told_with_its_reason() -> None:
    missing = EditRecord(op="replace", target="gone", status="skipped_target_not_found")
    refused = EditRecord(op="append", content="answer 42", status="refused", reason="gives it away")
    text = parts(missing, refused)
    assert "“gone”: skipped&#95;target&#95;not&#95;found" in text
    assert "**Refused by the guard**\n\n- edit 2: gives it away" in text
    assert "answer 42" not in text


def test_a_rewritten_document_has_one_diff() -> None:
    text = parts(mode="full_rewrite_minibatch", change_summary=("Shorter",), diff="-long\n+short\n")
    assert "**What changed**\n\n- Shorter" in text
    assert "```diff\n-long\n+short\n```" in text


def test_an_abundance_of_edits_is_counted() -> None:
    assert "And 5 more edits." in parts(*(edit("append", content=f"{n}") for n in range(15)))


def test_a_long_edit_is_cut_on_a_line() -> None:
    assert "… 70 more lines\n```" in parts(edit("append", content="line\n" * 100))

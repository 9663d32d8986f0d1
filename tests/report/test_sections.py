import pytest
from run_views import REPOSITORY, SHA, altered, entry, plain_run, record

from skillopt_ci.ledger import records
from skillopt_ci.ledger.evidence import EditRecord, NotesRecord, ReviewerNoteRecord, TaskOutcome
from skillopt_ci.ledger.records import BoundaryRecord, PairRecord, PairSide, StepRecord
from skillopt_ci.report.comment import edit_parts, event_body, event_section
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.terminal import rows_in_full
from skillopt_ci.report.view import RunView, StepPlace, event_view
from skillopt_ci.rollout.types import Status

LINKS, PLACE = Links(REPOSITORY), StepPlace(SHA, SHA[::-1], 12.5)
EVENT = entry(3, action="accept_new_best", score_before=0.2, score_after=0.3, reason="0.3 > 0.2")


def body(step: StepRecord, links: Links = LINKS) -> str:
    return event_body(event_view(step, PLACE), links)


def epoch_section(end: BoundaryRecord, place: StepPlace = PLACE, links: Links = LINKS) -> str:
    decision = end.decision
    event = entry(
        end.step,
        kind="slow_update",
        epoch=end.epoch,
        action=end.action,
        score_before=decision and decision.score_before,
        score_after=decision and decision.score_after,
    )
    places = {("slow_update", end.epoch): place}
    run = RunView(plain_run(0).state, (event,), epochs=(end,), places=places)
    return event_section(run, links, event)


def decided(**changes: object) -> StepRecord:
    return altered(record(EVENT), changes)


@pytest.mark.parametrize(
    "said",
    [
        "| because | 0.3 &gt; 0.2 |",
        "| selection tasks | 0.200 → 0.300 &#91;0.18, 0.45&#93; n=40 (hard) |",
        "| fixed (2) | <code>task-1</code>, <code>task-2</code> |",
        "| broken (1) | <code>task-3</code> |",
        "| failed (1) | <code>train-1</code> |",
        "| too old | 2 | <code>train-1</code> |",
        "> The old is gone.",
        "**Edit 1** · seen in 2 failed attempts",
        "```diff\n-old\n+new\n```",
        "cost <span>$</span>0.2500, 12.5 s",
        f"merge [{SHA[:7]}]({REPOSITORY}/commit/{SHA})",
    ],
)
def test_a_step_tells_all_its_evidence(said):
    assert said in body(record(EVENT))


def test_a_measurement_that_was_reused_is_told():
    assert "not measured again: this text already has a score" in body(decided(reused_from=0))
    assert "fixed" not in body(decided(action="skip_no_patches", measurement=None))


def test_tasks_that_infrastructure_failed_are_no_evidence():
    step = record(EVENT)
    lost = TaskOutcome(id="train-9", status=Status.ERROR, hard=0, soft=0, reason="HTTP 503")
    text = body(altered(step, rollout=step.proposal.rollout.model_copy(update={"tasks": (lost,)})))
    assert "| failed (0) | none |" in text
    assert "| failed in earlier steps (1) | <code>train-1</code> |" in text
    assert "**Not measured (no evidence for or against)**" in text
    assert "<code>train-9</code>: HTTP 503" in text


@pytest.mark.parametrize(
    ("action", "after", "said"),
    [
        ("accept", 0.3, "Step 3 merged: 0.200 → 0.300 on 40 tasks"),
        ("reject", 0.1, "Step 3 reverted: 0.200 → 0.100 on 40 tasks"),
        ("skip_no_patches", None, "Step 3: nothing proposed"),
    ],
)
def test_its_headline_is_the_verdict(action, after, said):
    assert event_view(decided(action=action, score_after=after)).headline == said


def test_reviewers_see_what_became_of_their_notes():
    note = ReviewerNoteRecord(
        id="issue-1", author="ada", text="Be @kind", url=f"{REPOSITORY}/pull/1#issue-1", taken=1
    )
    text = body(altered(record(EVENT), reviewer_notes=(note,)))
    assert f"- [ada]({REPOSITORY}/pull/1#issue-1): “Be &#64;&#8203;kind” – **merged**" in text


def test_a_step_whose_evidence_was_not_read_has_no_section():
    run = RunView(plain_run(0).state, (EVENT,), places={("step", 3): PLACE})
    assert event_section(run, LINKS, EVENT) == ""
    assert f"<code>{SHA[:7]}</code>" in body(plain_run(1).steps[0], Links())


def pair(name: str, category: str, before: float, after: float) -> PairRecord:
    return PairRecord(
        id=name,
        category=category,
        previous=PairSide(hard=before, soft=before),
        current=PairSide(hard=after, soft=after),
    )


END = BoundaryRecord(
    epoch=2,
    step=6,
    simulated=False,
    pairs=(pair("t1", "stable_success", 1, 1), pair("t2", "regressed", 1, 0)),
    previous_hard=1.0,
    current_hard=0.5,
    slow_update=records.SlowUpdateRecord(
        action="propose", content="Look twice.", reasoning="It slipped."
    ),
    skill_before="a",
    skill_after="b",
    config_sha256="c",
    decision=record(entry(6, action="reject", score_before=0.5, score_after=0.4)).decision,
)


def test_it_tells_verdict_pairs_guidance_and_reason():
    text = epoch_section(END)
    assert "<b>End of epoch 2</b> reverted: 0.500 → 0.400" in text
    assert "| compared | 1.000 → 0.500 on 2 training tasks: 1 still solved, 1 broken |" in text
    assert "Look twice." in text
    assert "> It slipped." in text


def test_of_the_tasks_compared_only_those_that_changed_are_named():
    same = [pair(f"same{n}", "stable_success", 1, 1) for n in range(300)]
    end = END.model_copy(update={"pairs": (*END.pairs, *same)})
    text = epoch_section(end)
    assert "301 still solved" in text
    assert "| training tasks broken (1) | <code>t2</code> |" in text
    assert "same" not in text
    rows = [text for _, text in rows_in_full(event_view(end))]
    assert ("t2" in rows, any("same" in row for row in rows)) == (True, False)


def test_an_end_without_a_candidate_has_no_scores():
    end = END.model_copy(update={"decision": None, "skill_after": "a", "pairs": ()})
    assert "0.500 →" not in epoch_section(end, StepPlace(), Links())


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
def test_every_edit_is_a_diff(change, diff):
    assert f"```diff\n{diff}\n```" in parts(change)


def test_what_was_not_applied_is_told_with_its_reason():
    missing = EditRecord(op="replace", target="gone", status="skipped_target_not_found")
    refused = EditRecord(op="append", content="answer 42", status="refused", reason="gives it away")
    text = parts(missing, refused, edit("append", content="new"))
    assert "- edit 1: not applied (target not found): replace “gone” by “” (seen in" in text
    assert ("**Edit 3**" in text, "**Edit 1**" in text, "answer 42" in text) == (True, False, False)
    assert "- refused: edit 2: gives it away" in text


def test_a_rewritten_document_has_one_diff():
    text = parts(mode="full_rewrite_minibatch", change_summary=("Shorter",), diff="-long\n+short\n")
    assert "- change: Shorter" in text
    assert "```diff\n-long\n+short\n```" in text
    notes = NotesRecord(proposed=1, added=("Look.",), appendix=("Look.",), alone=True)
    assert "```diff" not in parts(notes=notes, diff="+Look.\n")  # they are told in words


def test_an_abundance_of_edits_is_counted():
    assert "And 5 more edits." in parts(*(edit("append", content=f"{n}") for n in range(15)))
    assert "… 70 more lines\n```" in parts(edit("append", content="line\n" * 100))

import pytest
from run_views import entry, gate, landed, record

from skillopt_ci.ledger import evidence
from skillopt_ci.ledger.evidence import EditRecord, Measurement, NotesRecord, SuggestionRecord
from skillopt_ci.ledger.records import Decision, GateRecord
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.report import words
from skillopt_ci.report.commits import candidate
from skillopt_ci.report.terminal import log_row
from skillopt_ci.report.view import extra_facts
from skillopt_ci.text import score
from skillopt_ci.training.replies import WireError, extract_json

ACCOUNTS = evidence.booked(
    {
        Account("target", "rollout"): Usage(4, 400, 40, cost_usd=0.5),
        Account("target", "selection"): Usage(2, 200, 20, cached_tokens=100, cost_usd=0.25),
        Account("judge", "judge"): Usage(1, 10, 1, reasoning_tokens=1, cost_usd=None),
    }
)


def test_each_role_is_followed_by_its_stages():
    assert tuple(words.account_rows(ACCOUNTS)) == (
        ("  judge", "1 call, 11 tokens, cost unknown (no price known) (1 of reasoning)"),
        ("  target", "6 calls, 660 tokens, cost $0.7500 (100 cached)"),
        ("    rollout", "4 calls, 440 tokens, cost $0.5000"),
        ("    selection", "2 calls, 220 tokens, cost $0.2500 (100 cached)"),
    )
    assert words.detailed(Usage(1, 9, cache_write_tokens=9)).endswith("(9 written to the cache)")


WHOLE = Measurement(hard=0.5, soft=0.5, score=0.5, tasks={"a": (1.0, 1.0), "b": (0.0, 0.0)})
PARTIAL = WHOLE.model_copy(update={"planned": 8})

GATE = gate(0.1, 0.07, compared=38, p_value=0.0831, alpha=0.2, candidate_attempts=40)


def decision(measurement: Measurement | None = WHOLE, gate: GateRecord | None = None) -> Decision:
    return Decision(
        action="reject",
        reason="",
        metric="hard",
        score_before=0.5,
        score_after=None if measurement is None else 0.4375,
        measurement=measurement,
        compared=2,
        gate=gate,
    )


def test_a_partial_score_is_told_with_all_tasks_and_marked_as_an_estimate():
    assert words.tasks_text(decision(PARTIAL)) == "2 of 8 tasks"
    assert words.tasks_text(decision()) == "2 tasks"
    assert score(0.4375, estimated=True) == "~0.438"
    assert score(None, estimated=True) == "–"
    assert words.arrow(decision(PARTIAL)) == "0.500 → ~0.438"
    assert words.arrow(decision()) == "0.500 → 0.438"
    assert log_row(entry(1, score_after=0.4375, planned=8))[3] == "~0.438"


def test_arithmetic_tells_difference_and_effort():
    assert words.arithmetic(decision()) == ""
    many = GATE.model_copy(update={"compared": 1_938, "planned": 2_000})
    told = "Difference: +0.100 ± 0.137 (95 %) on 1,938 of 2,000 tasks. It took 40 attempts."
    assert words.arithmetic(decision(gate=many)) == told


def test_effort_is_of_all_attempts_and_a_partial_difference_has_the_headlines_gain(measurement):
    gate = GATE.model_copy(update={"saved": 24, "end": "certain", "candidate_attempts": 16})
    thrice = measurement.model_copy(update={"attempts_each": 3})
    assert "It took 48 attempts, 72 saved" in words.arithmetic(decision(thrice, gate))
    told = words.arithmetic(decision(PARTIAL, GATE))
    assert "+0.100 ± 0.142" in told
    assert "-0.063" in told  # 0.500 → ~0.438


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"saved": 24, "end": "certain", "candidate_attempts": 16},
            "It took 16 attempts, 24 saved",
        ),
        ({"candidate_attempts": 0}, "No attempt was needed."),
        ({"losses": {"claims": 0.25}}, "Types of task that lost too much: claims -0.250."),
        ({"losses": {"x\n::error::y": 0.25}}, "too much: x "),  # on one line
    ],
)
def test_what_is_out_of_the_ordinary_is_told(changes, told):
    assert told in words.arithmetic(decision(gate=GATE.model_copy(update=changes)))


OLDER = "d" * 64


def test_attempts_at_one_task_are_one_task(make_proposal):
    rollout = make_proposal().rollout
    twice = rollout.model_copy(update={"n": 4, "tasks": rollout.tasks * 2})
    assert words.training_score(make_proposal(rollout=twice)) == "0.500 [0.09, 0.91] n=2"


@pytest.mark.parametrize(("older", "more"), [("", ""), (OLDER, ", one version earlier")])
def test_training_score_names_an_older_skill(make_proposal, older, more):
    proposal = make_proposal(skill_attempted=older)
    assert words.training_score(proposal) == "0.500 [0.09, 0.91] n=2" + more
    assert make_proposal(skill_attempted=OLDER).attempted_under == OLDER
    assert make_proposal().attempted_under == make_proposal().skill_before


APPLIED = EditRecord(op="append", content="A rule.", status="applied_append")
REFUSED = EditRecord(op="append", content="x", status="skipped_guard", reason="it is\nevil")
PLAIN = record(entry(1, score_before=0.5, score_after=0.25)).proposal


def proposal(
    *edits: EditRecord, notes: NotesRecord | None = None, refused: str = ""
) -> evidence.ProposalRecord:
    return PLAIN.model_copy(update={"edits": edits, "notes": notes, "refused": refused})


def noting(*added: str, **more: object) -> NotesRecord:
    return NotesRecord(proposed=len(added), added=added, appendix=added, **more)


def verdict_on(action: str, notes: Decision | None = None) -> Decision:
    changes = {"action": action, "reason": "so it is", "score_after": 0.25, "notes": notes}
    return decision().model_copy(update=changes)


def test_the_gist_names_the_notes_after_the_edits():
    assert words.headline(proposal(APPLIED, notes=noting("Look."))) == "A rule; note “Look”"
    assert words.headline(proposal(notes=noting("- A.", "~~~\nBe."))) == "notes “A”; “Be”"
    assert words.headline(proposal(REFUSED)) == "no change"
    assert words.notes_gist(proposal(APPLIED)) == ""
    # fences with their language and the line below a table's heading are no words of a rule
    assert words.quoted("- ```sh\n--all **b**\n| a |\n|:-|\n```\n", 60) == "--all **b** | a |"
    assert words.quoted("2. [x] **Run `a`**:\n~~~ sh x\n1.5\n~~~\n- Go.", 60) == "Run `a`: 1.5 - Go"
    assert (words.quoted("- ```", 9), words.quoted("```a``` or b", 60)) == ("```", "```a``` or b")
    assert not proposal(notes=noting("Look.", alone=True)).body_changed
    assert proposal(APPLIED, notes=noting("Look.")).body_changed


def test_each_reminder_has_a_line_condensing_has_one_and_the_fate_of_notes_alone_is_told():
    notes = NotesRecord(proposed=1, added=("Look.",), appendix=("Both.",), consolidated_from=3)
    told = [one.text for one in extra_facts(proposal(notes=notes)) if one.label == "reminder"]
    assert told == ["remind of “Look.”", "condense 3 reminders to 1"]
    notes = noting(refused=(evidence.RefusedNote(note="secret", reason="it is dark"),))
    told = words.refusal_lines(proposal(APPLIED, REFUSED, notes=notes, refused="it is new"))
    assert list(told) == ["edit 2: it is evil", "the new document: it is new", "a note: it is dark"]
    assert list(words.refusal_lines(proposal(REFUSED), edits=False)) == []
    noted = proposal(APPLIED, notes=noting("Look."))
    kept = words.notes_verdict(noted, verdict_on("reject", verdict_on("accept_notes")))
    assert kept == "The next commit keeps 1 reminder, measured alone (0.250): so it is."
    dropped = words.notes_verdict(noted, verdict_on("reject", verdict_on("reject")))
    assert dropped.startswith("Dropped were also 1 reminder")
    assert words.notes_verdict(noted, verdict_on("accept")) == ""


UNMEASURED = {"error: down": 2, "grader_error: no\nreport": 1}
LOST = {"pessimistic_hard": 0.5, "pessimistic_soft": 0.625, "unmeasured": UNMEASURED}


def test_reservations_tell_both_numbers_the_commonest_reasons_limits_and_caveats(measurement):
    assert [*words.reservations(measurement), *words.reservations(None)] == []
    assert words.with_pessimistic("0.750", measurement) == "0.750"
    lost = measurement.model_copy(update=LOST)
    assert words.with_pessimistic("0.750", lost) == "0.750, 0.500 solved if errors count as failed"
    (sentence,) = words.reservations(lost)
    assert "3 attempts could not be measured" in sentence
    assert "0.500 solved and 0.625 with partial credit" in sentence
    assert "2 × error: down; 1 × grader_error: no report" in sentence
    reasons = {f"error: {number}": 1 for number in range(9)}
    (sentence,) = words.reservations(measurement.model_copy(update={**LOST, "unmeasured": reasons}))
    assert sentence.endswith("and 4 further reasons.")
    long = {**LOST, "unmeasured": {"x" * 200: 1}}
    (sentence,) = words.reservations(measurement.model_copy(update=long))
    assert sentence.endswith("x…")
    told = words.reservations(
        measurement.model_copy(update={"limits": {"time": 2, "steps": 1}, "caveat": "Open house."})
    )
    limited, caveat = told
    assert limited.startswith("Of the attempts at 4 tasks, 3 ended at a limit; what there was by")
    assert (limited.endswith(" graded: 2 by time, 1 by steps."), caveat) == (True, "Open house.")


def test_of_a_reply_people_read_what_was_wrong_and_not_what_the_model_was_told():
    with pytest.raises(WireError) as caught:
        extract_json("Sorry.")
    reply = evidence.UnusableReply(reason=caught.value.message)
    lost = evidence.UnusableReplies(asked=1, replies=(reply,))
    (line,) = words.unusable_lines(PLAIN.model_copy(update={"unusable": lost}))
    assert line == "The reply holds no complete JSON object."


DATES = SuggestionRecord(type="add_rule", title="Dates", instruction="- Write dates\nas ISO.")
REWRITE = {"mode": "rewrite_from_suggestions", "edits": (), "suggestions": (DATES, DATES)}
FULL = {"mode": "full_rewrite_minibatch", "edits": ()}


def test_a_rewrite_says_what_changed_or_is_told_by_its_suggestions_on_one_line_each(make_proposal):
    proposal = make_proposal(**FULL, change_summary=("- Add: ISO dates.", " ", "Drop: commas"))
    assert words.rewriting(proposal) == ("Add: ISO dates", "Drop: commas")
    assert words.headline(proposal) == "Add: ISO dates; Drop: commas"
    untitled = DATES.model_copy(update={"title": ""})
    proposal = make_proposal(**REWRITE | {"suggestions": (DATES, untitled)})
    assert words.rewriting(proposal) == ("Dates", "Write dates as ISO")
    assert words.headline(make_proposal(**FULL)) == "the document, rewritten"
    same = make_proposal().skill_before
    proposal = make_proposal(**FULL, change_summary=("Add: x",), skill_after=same)
    assert (words.rewriting(proposal), words.headline(proposal)) == ((), "no change")
    assert proposal.change_count == 0
    hostile = DATES.model_copy(update={"type": "x\n@y", "title": "@octocat fixes #1"})
    rows = list(words.suggestion_rows(make_proposal(**REWRITE | {"suggestions": (DATES, hostile)})))
    assert rows[0] == ("suggestion 1", "add_rule, Dates: Write dates as ISO")
    assert rows[1][1].startswith("x (at)y, (at)octocat fixes no. 1: ")


@pytest.mark.parametrize(("mode", "count"), [(REWRITE, 2), (FULL, 1), ({}, 1)])
def test_changes_are_counted_by_mode(make_proposal, mode, count):
    assert make_proposal(**mode).change_count == count


def test_commits_of_a_rewrite_read_like_those_of_edits(make_record, make_proposal, make_decision):
    made = make_record(proposal=make_proposal(**REWRITE, change_summary=("Add: ISO dates",)))
    assert candidate(made).subject == "Step 3: Add: ISO dates"
    assert "- Add: ISO dates\n" in candidate(made).body + "\n"
    text = landed(made.model_copy(update={"decision": make_decision()}))
    assert text.subject == "Merge step 3 (0.500 → 0.750): Add: ISO dates"
    assert text.trailers["Skillopt-Edits"] == "2"

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_views import landed, told

from skillopt_ci.git.history import Commit, CommitText, message
from skillopt_ci.ledger import records
from skillopt_ci.ledger.records import BoundaryRecord, MetaSkillRecord, PairRecord, SlowUpdateRecord
from skillopt_ci.ledger.summary import FinalSkill, Summary, TypeScore
from skillopt_ci.model.types import Usage
from skillopt_ci.report.commits import base, candidate
from skillopt_ci.report.terminal import rows_at_a_glance, rows_in_full, title
from skillopt_ci.report.view import StepPlace, event_view
from skillopt_ci.report.words import edit_text, gist
from tests.report.conftest import Make, copies

ATTACK = (
    "nice\n\nCo-authored-by: Eve <eve@example.org>\nSkillopt-Step: 99\n\n"
    "@octocat fixes #1 https://evil.example [skip ci] \x1b[31m\u202e"
)


def wrapped(text: CommitText) -> str:
    return message(text.subject, text.body, text.trailers)


def trailers_of(text: str) -> dict[str, str]:
    return Commit("", (), "", "", text).trailers


def test_a_start_says_what_the_skill_scores_and_a_new_measurement_why(make_entry, state):
    text = told(make_entry(kind="start", action="start"), state)
    assert text.subject == "Start training SKILL.md: 0.750 on 4 tasks"
    assert "0.750 [0.30, 0.95] n=4" in text.body
    assert text.trailers["Skillopt-Action"] == "start"
    assert "merged if it scored higher" in text.body
    basis = records.Basis(config={"evaluation": {"use_gate": False}}, train_size=1, train_sha256="")
    ungated = state.model_copy(update={"basis": basis})
    assert "is open" in told(make_entry(kind="start", action="start"), ungated).body
    entry = make_entry(kind="measure", action="measure", reason="the skill was changed by hand")
    text = told(entry, state)
    assert text.subject == "Measure again: 0.750 on 4 tasks, the skill was changed by hand"
    assert text.trailers["Skillopt-Score-After"] == "0.75"


def test_a_candidate_that_lost_its_ground_is_set_aside(make_entry, state):
    entry = make_entry(kind="set_aside", action="set_aside", reason="the branch changed")
    text = told(entry, state, work="step 4")
    assert text.subject == "Set aside the candidate of step 4: the branch changed"
    assert text.trailers["Skillopt-Action"] == "set_aside"


def test_taking_in_base_names_the_skill_that_changed():
    assert base("main", "SKILL.md").subject == "Take in main: SKILL.md changed there"


def test_a_candidate_tells_its_edits_and_their_reason(make_record):
    text = candidate(make_record())
    assert text.subject == "Step 3: Be kind"
    assert "Before this change the model scored 0.500 on 2 training tasks." in text.body
    assert "- add “Be kind” (seen in 3 failed attempts)" in text.body
    assert "Why: Kindness was missing." in text.body
    assert "Skillopt-Score-After" not in text.trailers


def test_a_merge_carries_scores_flips_and_usage(make_record, make_decision):
    text = landed(make_record(decision=make_decision()), seconds=1.26)
    assert text.subject == "Merge step 3 (0.500 → 0.750): Be kind"
    assert text.body == (
        "Verdict: merged, new best. Candidate 0.7500 is above 0.5000.\n\n"
        "Fixed: s1, s2. Broken: s3.\n\n"
        "Used 7 calls, 1,234 tokens, cost $0.0125."
    )
    assert text.trailers == {
        "Skillopt-Step": "3",
        "Skillopt-Epoch": "2",
        "Skillopt-Action": "accept_new_best",
        "Skillopt-Score-Before": "0.5",
        "Skillopt-Score-After": "0.75",
        "Skillopt-Tasks": "4",
        "Skillopt-Edits": "1",
        "Skillopt-Skill-Sha256": "b" * 64,
        "Skillopt-Config-Sha256": "c" * 64,
        "Skillopt-Tokens": "1234",
        "Skillopt-Cost-Usd": "0.012500",
        "Skillopt-Seconds": "1.3",
    }


def test_a_revert_names_its_commit_and_the_skill_as_it_was(make_record, make_decision):
    text = landed(make_record(decision=make_decision(action="reject")))
    assert text.subject == "Revert step 3 (0.500 → 0.750): Be kind"
    assert text.body.startswith(f"This reverts commit {'d' * 40}.\n\nVerdict: reverted.")
    assert text.trailers["Skillopt-Skill-Sha256"] == "a" * 64


def test_a_step_without_a_candidate_has_no_score(make_record, make_decision):
    decision = make_decision(
        action="skip_no_patches", reason="no edit was proposed", score_after=None, measurement=None
    )
    text = landed(make_record(decision=decision), None)
    assert text.subject == "Step 3: no edit was proposed"
    assert "Fixed" not in text.body
    assert text.trailers["Skillopt-Score-After"] == "none"


def test_a_measurement_that_was_reused_says_so(make_record, make_decision):
    text = landed(make_record(decision=make_decision(reused_from=0)))
    assert "\n\nNot measured: this text already had a score.\n\n" in text.body
    usage = replace(make_record().usage, cost_usd=None)
    text = landed(make_record(usage=usage, decision=make_decision()))
    assert text.trailers["Skillopt-Cost-Usd"] == "unknown"


def test_a_simulated_step_says_so_in_words_and_as_a_fact(make_record, make_decision):
    record = make_record(simulated=True, decision=make_decision())
    for text in (candidate(record), landed(record)):
        assert "simulated" in text.body
        assert text.trailers["Skillopt-Simulated"] == "true"


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("append", "add “new”"),
        ("insert_after", "after “old” add “new”"),
        ("replace", "replace “old” by “new”"),
        ("delete", "drop “old”"),
        ("@eve", "unknown operation “(at)eve”"),
    ],
)
def test_an_edit_is_told_in_words(op, words, make_edit):
    edit = make_edit(
        op=op, target="## old", content="- new\n", source_type="success", support_count=1
    )
    assert edit_text(edit) == f"{words} (seen in 1 successful attempt)"


def test_the_gist_has_what_the_edits_say(make_edit):
    drop = make_edit(op="delete", target="* **Old:** rule.", content="")
    assert (gist(make_edit()), gist(drop)) == ("Be kind", "drop “Old: rule”")


def test_hostile_text_is_inert_in_messages(
    make_record, make_proposal, make_edit, make_decision, make_entry, state
):
    proposal = make_proposal(edits=(make_edit(content=ATTACK),), reasoning=ATTACK)
    record = make_record(proposal=proposal, decision=make_decision(fixed=(ATTACK,)))
    kinds = dict.fromkeys((ATTACK, "[skip ci] ##[error]"), TypeScore(hard=1, n=1))
    skill = FinalSkill(sha256="a", step=0, origin="initial", by_type=kinds)
    summary = Summary(
        run="demo", skill="x", simulated=False, step=1, total_steps=1, epoch=1, metric="hard",
        initial=skill, best=skill, last=skill, promoted=False,
    )  # fmt: skip
    finished = told(make_entry(kind="finish"), state, summary=summary)
    signs = ("@octocat", "#1", "https://", "[skip ci]", "##[", "\x1b", "\u202e", "\nCo-authored")
    for text in (candidate(record), landed(record), finished):
        whole = wrapped(text)
        assert trailers_of(whole) == text.trailers
        assert [sign for sign in signs if sign in whole] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text())
def test_no_text_can_forge_a_trailer(make_record, make_proposal, make_edit, content, why):
    edits = (make_edit(content=content, target=content),)
    text = candidate(make_record(proposal=make_proposal(edits=edits, reasoning=why)))
    assert trailers_of(wrapped(text)) == text.trailers
    assert len(wrapped(text).split("\n")[0]) <= 72


def test_many_names_are_counted_not_listed(make_record, make_decision):
    decision = make_decision(fixed=tuple(f"t{number}" for number in range(15)))
    assert "t11 and 3 more. Broken" in landed(make_record(decision=decision)).body


BEFORE, AFTER = "a" * 64, "b" * 64
GOOD, BAD = records.PairSide(hard=1, soft=1), records.PairSide(hard=0, soft=0)

SLOW = SlowUpdateRecord(
    action="propose",
    previous_content="- Old.",
    content="- **Check** twice.\n- Ask @ada.",
    reasoning="so",
)

META = MetaSkillRecord(action="write_meta_skill", content="- Short rules work.")
NO_SLOW, NO_META = SlowUpdateRecord(action="no_content"), MetaSkillRecord(action="no_content")
BAD_SLOW = NO_SLOW.model_copy(update={"refused": "it holds a token"})
BAD_META = NO_META.model_copy(update={"refused": "it holds a token"})
FIRST = MetaSkillRecord(action="skip_first_epoch")
ROOM = SlowUpdateRecord(action="inject_placeholder")


@pytest.fixture
def make_end(make_decision: Make) -> Make:
    record = BoundaryRecord(
        epoch=2,
        step=6,
        simulated=False,
        policy="mixed",
        pairs=(
            PairRecord(id="t1", category="improved", previous=BAD, current=GOOD),
            PairRecord(id="t2", category="persistent_fail", previous=BAD, current=BAD),
            PairRecord(id="t3", category="persistent_fail", previous=BAD, current=BAD),
        ),
        previous_hard=0.0,
        current_hard=0.5,
        slow_update=SLOW,
        meta_skill=META,
        skill_before=BEFORE,
        skill_after=AFTER,
        config_sha256="c" * 64,
        stages={"slow_rollout": Usage(calls=4)},
        decision=make_decision(),
        usage=Usage(calls=9),
    )
    return copies(record)


def ended_unchanged(make_end: Make, **changes: object) -> BoundaryRecord:
    end: BoundaryRecord = make_end(decision=None, skill_after=BEFORE, **changes)
    return end


def test_candidate_says_what_it_proposes(make_end):
    text = candidate(make_end(decision=None))
    assert text.subject == "End of epoch 2: Check twice; Ask (at)ada."
    assert text.trailers["Skillopt-Action"] == "proposed"
    assert text.trailers["Skillopt-Skill-Sha256"] == AFTER


def test_merge_has_scores_and_evidence(make_end):
    text = landed(make_end(), "f" * 40)
    assert text.subject.startswith("Merge end of epoch 2 (0.500 → 0.750): Check twice; ")
    assert "Compared on 3 training tasks: 2 still failed, 1 fixed; 0.000 under" in text.body
    assert "For the optimizer: - Short rules work." in text.body
    assert (text.trailers["Skillopt-Epoch"], text.trailers["Skillopt-Epoch-End"]) == ("2", "true")
    assert text.trailers["Skillopt-Score-After"] == "0.75"
    assert text.trailers["Skillopt-Skill-Sha256"] == AFTER


def test_revert_names_its_candidate(make_end, make_decision):
    text = landed(make_end(decision=make_decision(action="reject")), "f" * 40)
    assert text.subject.startswith("Revert end of epoch 2")
    assert f"This reverts commit {'f' * 40}." in text.body
    assert "Verdict: reverted. " in text.body
    assert "Fixed: s1, s2. Broken: " in text.body
    assert text.trailers["Skillopt-Skill-Sha256"] == BEFORE


def test_end_without_a_candidate_is_told_plainly(make_end):
    text = landed(ended_unchanged(make_end, slow_update=NO_SLOW), None)
    assert text.subject == "End of epoch 2: no new guidance, but notes for the optimizer"
    assert text.trailers["Skillopt-Action"] == "no_content"
    assert "Skillopt-Score-After" not in text.trailers


@pytest.mark.parametrize(
    ("slow", "meta", "gist", "reason"),
    [
        (NO_SLOW, NO_META, "no new guidance", "no new guidance"),
        (None, META, "notes for the optimizer", "notes for the optimizer"),
        (None, NO_META, "no notes for the optimizer", "no notes for the optimizer"),
        (None, FIRST, "no notes for the optimizer", "the first epoch has nothing to compare with"),
        (BAD_SLOW, None, "no new guidance", "guidance refused: it holds a token"),
        (None, BAD_META, "no notes for the optimizer", "notes refused: it holds a token"),
        (ROOM, None, "there is room for guidance", "the skill has a place for guidance already"),
    ],
)
def test_unchanged_skill_has_a_reason(make_end, slow, meta, gist, reason):
    end = ended_unchanged(make_end, slow_update=slow, meta_skill=meta)
    assert (end.gist, end.reason) == (gist, reason)


def test_refusals_are_in_the_message(make_end):
    body = landed(ended_unchanged(make_end, slow_update=BAD_SLOW, meta_skill=BAD_META), None).body
    assert "Guidance refused: it holds a token" in body
    assert "Notes refused: it holds a token" in body


def test_rows_at_a_glance(make_end, state):
    rows = dict(rows_at_a_glance(event_view(make_end(), StepPlace(seconds=1.25)), state))
    assert rows["verdict"] == "merged, new best"
    assert rows["compared"] == "0.000 → 0.500 on 3 training tasks: 2 still failed, 1 fixed"
    assert rows["used"].endswith("1.2 s")
    rows = dict(rows_at_a_glance(event_view(make_end(pairs=())), state))
    assert rows["compared"] == "nothing to compare"  # as in the first epoch
    told = rows_in_full(event_view(make_end()))
    assert len(rows := dict(told)) == len(told)
    assert (rows["guidance"], rows["old guidance"]) == (SLOW.content, "- Old.")
    assert rows["training tasks fixed"] == "t1"
    assert rows["meta skill"] == META.content
    assert rows["selection tasks"].startswith("0.500 → 0.750 [0.30, 0.95] n=4")


def test_verdict_without_a_decision(make_end):
    assert event_view(make_end(decision=None)).verdict == "in flight"
    assert event_view(ended_unchanged(make_end)).verdict == "nothing changed"
    assert title(make_end(simulated=True)).endswith("(simulated models)")
    assert "simulated" in landed(make_end(simulated=True), "f" * 40).body

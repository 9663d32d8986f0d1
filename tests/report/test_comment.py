import re
from dataclasses import replace

import pytest
from hostile import HOSTILE, problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_views import REPOSITORY, SHA, TEXTS, altered, entry, gate, plain_run, record, runs

from skillopt_ci.ledger.evidence import EditRecord, Measurement, ReviewerNoteRecord
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.ledger.summary import DifferenceRecord, FinalSkill, Summary
from skillopt_ci.model.types import Usage
from skillopt_ci.report import comment
from skillopt_ci.report.comment import body, marker, pinned_comment, step_check, step_comment, title
from skillopt_ci.report.commits import candidate
from skillopt_ci.report.markdown import Links, size
from skillopt_ci.report.view import RunView, event_view
from skillopt_ci.report.words import Fate, note_outcomes

LINKS = Links(REPOSITORY, f"{REPOSITORY}/actions/runs/7")


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(run=runs(), why=st.one_of(st.just(""), TEXTS), limit=st.integers(4_000, 12_000))
def test_any_record_makes_texts_that_are_inert_and_fit(run, why, limit):
    stopped = replace(run, inconclusive=why)
    texts = [pinned_comment(stopped, LINKS), step_comment(run, LINKS)]
    texts += [body(run, LINKS), pinned_comment(run, LINKS, limit=limit)]
    assert texts[0].split("\n", 1)[0] == "<!-- skillopt-ci:v1 key=demo -->"
    assert size(texts[-1]) <= limit
    for text in texts:
        assert size(text) <= 60_000
        assert problems(text) == []
    assert len(step_check(stopped, LINKS).summary) <= 65_535


def test_body_and_comment_say_from_where_to_where_and_the_table_stands_once():
    text, comment = body(plain_run(3), LINKS), pinned_comment(plain_run(3), LINKS)
    assert "### <code>ledger</code>: 0.100 → 0.300 on 40 selection tasks" in comment
    assert "| selection |" not in comment
    assert "| selection | 0.100 &#91;0.04, 0.23&#93; n=40 → 0.300 &#91;0.18, 0.45&#93; n=40" in text
    assert "| steps | 2 merged, 1 reverted |" in text


def test_the_newest_step_comes_first():
    text = pinned_comment(plain_run(3), LINKS)
    assert text.index("<b>Step 3</b>") < text.index("<b>Step 2</b>") < text.index("<b>Step 1</b>")
    text = pinned_comment(plain_run(1), LINKS)
    assert f"[{SHA[:7]}]({REPOSITORY}/commit/{SHA})" in text
    assert f"[workflow run]({REPOSITORY}/actions/runs/7)" in text


def test_a_hundred_steps_are_told_within_the_limit_the_old_ones_by_their_number():
    text = pinned_comment(plain_run(400), LINKS)
    assert size(text) <= 60_000
    assert "<b>Step 400</b>" in text
    assert "more before that" in text


def test_an_interruption_is_no_verdict():
    text = pinned_comment(replace(plain_run(2), inconclusive="the budget was reached"), LINKS)
    head = text.split("<details>", 1)[0]
    assert "No verdict this time" in head
    assert "neither a regression nor an improvement" in head
    assert "✅" not in head


def test_simulated_models_are_called_so():
    assert "**simulated**" in pinned_comment(plain_run(1, simulated=True), LINKS)
    assert "**simulated**" not in pinned_comment(plain_run(1), LINKS)
    assert title(plain_run(1, simulated=True)).endswith(" [simulated models]")


def test_the_pinned_comment_tells_what_the_score_leaves_out():
    run = plain_run(1)
    lost = run.state.current.measurement.model_copy(
        update={"pessimistic_hard": 0.1, "pessimistic_soft": 0.1, "unmeasured": {"down": 4}}
    )
    current = run.state.current.model_copy(update={"measurement": lost})
    run = replace(run, state=run.state.model_copy(update={"current": current}))
    assert "- caution: 4 attempts could not be measured." in pinned_comment(run, LINKS)
    assert "solved: no edit can solve more" in pinned_comment(plain_run(17), LINKS)


def test_scores_from_before_the_tasks_changed_are_not_compared_with():
    run = plain_run(1)
    again = entry(1, kind="measure", action="measure", score_before=0.2, score_after=0.6)
    text = body(RunView(run.state, (*run.history, again)), LINKS)
    assert "learned: nothing yet\n" in body(plain_run(0), LINKS)
    assert "learned: 0.200 on 40 selection tasks" in text  # what base's would have is unknown
    same = again.model_copy(update={"skill_sha256": run.history[0].skill_sha256})
    gained = replace(run, history=(run.history[0], same, *run.history[1:]))
    assert "learned: -0.400 on 40 selection tasks" in body(gained, LINKS)
    assert "scoring has changed: the selection scores are from after that" in text


@pytest.mark.parametrize("run", ["demo", "a.b", "x--y", "über/…"])
def test_markers_are_hidden_whatever_the_run_is_called(run):
    assert problems(marker(run, "step 3")) == []


def test_markers_of_different_comments_differ():
    assert len({marker("a"), marker("b"), marker("a", "step-1"), marker("a", "step-2")}) == 4
    texts = [step_comment(plain_run(steps), LINKS) for steps in (0, 1, 2)]
    first = [text.split("\n", 1)[0] for text in texts]
    assert first == [marker("demo", part) for part in ("start", "step-1", "step-2")]
    assert [text.count("<details>") for text in texts] == [0, 1, 1]


def with_skill(path: str) -> RunView:
    run = plain_run(3)
    return replace(run, state=run.state.model_copy(update={"skill": path}))


def with_rules(run: RunView, step: int, *rules: str) -> RunView:
    edits = tuple(EDIT.model_copy(update={"content": f"- {rule}"}) for rule in rules)
    steps = (altered(one, edits=edits) if one.step == step else one for one in run.steps)
    return replace(run, steps=tuple(steps))


def learned(run: RunView) -> str:
    """What of the body comes before its table."""
    return body(run, LINKS).split("\n|  |", 1)[0]


def test_title_and_body_lead_with_the_rules_and_what_they_brought():
    run = with_rules(plain_run(3), 3, "Tax is `VAT` plus the number", "Dates are ISO")
    last = run.history[3].model_copy(update={"score_after": 0.4})
    run = replace(run, history=(*run.history[:3], last))
    told = "ledger: Tax is `VAT` plus the number and 2 more rules, +0.200 on 40 selection tasks"
    assert title(run) == told
    link = f"{REPOSITORY}/commit/{SHA}"
    assert learned(run).split("\n\n", 1)[1] == (
        "### What <code>ledger</code> learned: +0.200 on 40 selection tasks\n\n"
        f"- **+0.200** on 40 tasks · [step 3]({link})\n"
        "  - Tax is <code>VAT</code> plus the number\n  - Dates are ISO\n"
        f"- **+0.100** on 40 tasks · [step 1]({link})\n  - new\n"
    )


@pytest.mark.parametrize(
    ("error", "told", "verdict"),
    [
        (0.02, "**+0.100 ± 0.040 (95 %)** on 40 tasks · ", "merged, new best"),
        (0.05, "**+0.100 ± 0.101 (95 %)** on 40 tasks, within noise · ", "merged, within noise"),
        (None, "**+0.100** on 40 tasks · ", "merged, new best"),
    ],
)
def test_a_gain_says_how_sure_it_is_and_within_noise_is_not_called_the_best(error, told, verdict):
    run = plain_run(1)
    step = altered(run.steps[-1], {"gate": gate(0.1, error)})
    assert f"- {told}[step 1](" in learned(replace(run, steps=(step,)))
    assert event_view(step).verdict == verdict


def test_what_was_taken_back_is_not_told_and_no_score_is_claimed_until_there_is_one():
    taken = entry(3, kind="revert", action="revert", score_before=None, reason="step 3, by ada")
    run = plain_run(3)
    run = replace(run, history=(*run.history, taken), skill="new\n")
    assert "step 3" not in learned(run)
    assert title(run).endswith("new, yet to be scored after its last change")
    assert "0.300 on 40 selection tasks" not in pinned_comment(run, LINKS).split("<details>", 1)[0]
    check = step_check(run, LINKS)
    assert (check.conclusion, "yet to be scored" in check.title) == ("neutral", True)
    assert not run.improved


def test_only_what_base_lacks_was_learned():
    run = replace(plain_run(3), base_events=2)
    assert "step 1" not in learned(run)
    merged = replace(run, base_events=4)
    assert title(merged) == "ledger: nothing more learned"
    assert "learned: nothing more\n" in body(merged, LINKS)


def test_after_a_merge_all_is_relative_to_base():
    # base has the start and three steps, the last of which came to 0.30; step 5 comes to 0.40
    run = replace(plain_run(5), base_events=4)
    assert title(run) == "ledger: new, +0.100 on 40 selection tasks"
    told, pinned, check = body(run, LINKS), pinned_comment(run, LINKS), step_check(run, LINKS)
    for text in (told, pinned):
        assert [one for one in ("0.300", "steps not yet in base") if one not in text] == []
        assert "0.100 →" not in text
    assert "1 merged, 1 reverted" in told
    assert "<code>main</code>, which has this run up to step 3" in told
    assert "Step 3" not in pinned
    assert "0.100" not in check.summary
    assert "1 merged, 1 reverted" in check.summary


def test_a_tested_skill_is_told_by_the_test_which_comes_first_with_its_interval():
    run = plain_run(1)
    tested = Measurement(hard=0.5, soft=0.5, score=0.5, tasks={"t": (0.5, 0.5)})
    skill = FinalSkill(sha256="now", step=1, origin="step 1", test=tested)
    first = skill.model_copy(update={"sha256": "first"})
    summary = Summary(
        run="demo", skill="s", simulated=False, step=1, total_steps=1, epoch=1, metric="hard",
        initial=first, best=skill, last=skill, promoted=False,
        best_gain=DifferenceRecord(mean=0.25, standard_error=0.05, n=60, clusters=6),
    )  # fmt: skip
    run = replace(run, summary=summary)
    assert "learned: +0.250 ± 0.129 (95 %) on 60 test tasks" in body(run, LINKS)
    assert "scored higher" not in body(run, LINKS)  # with an open gate, merges need not
    assert title(run).endswith("+0.250 on 60 test tasks")
    assert "\n- test: 0." in pinned_comment(run, LINKS)
    assert body(run, LINKS).index("| test |") < body(run, LINKS).index("| selection |")
    moved = run.state.current.model_copy(update={"sha256": "later"})
    later = replace(run, state=run.state.model_copy(update={"current": moved}))
    assert "on 40 selection tasks" in title(later)
    assert "(the skill of step 1, not this one; after step 1, tasks" in body(later, LINKS)
    better = tested.model_copy(update={"hard": 0.25})
    last = skill.model_copy(update={"sha256": "later", "test": better})
    both = replace(later, summary=run.summary.model_copy(update={"last": last}))
    assert re.search(r"\| test \|.* → 0\.250 .*\(after step 1, tasks", body(both, LINKS))


def test_every_folded_step_says_its_change_and_its_scores_and_no_cost_where_there_was_none():
    run = with_rules(plain_run(2), 2, "Dates are ISO")
    cost = " · &lrm;<span>$</span>0.2500"  # stays last after a rule from right to left
    assert re.findall("<summary>(.*)</summary>", pinned_comment(run, LINKS)) == [
        f"↩️ <b>Step 2</b> reverted: 0.200 → 0.150 on 40 tasks · Dates are ISO{cost}",
        f"✅ <b>Step 1</b> merged, new best: 0.100 → 0.200 on 40 tasks · new{cost}",
    ]
    free = [one.model_copy(update={"usage": Usage()}) for one in run.steps]
    _, *text = pinned_comment(replace(run, steps=tuple(free)), LINKS).split("<details>")
    assert "$" not in "".join(text)
    assert "0 calls" not in "".join(text)


@pytest.mark.parametrize(
    ("path", "name"), [("AGENTS.md", "AGENTS.md"), ("a/b/SKILL.md", "b"), ("SKILL.md", "SKILL.md")]
)
def test_the_skill_is_called_by_its_folder_or_file(path, name):
    assert title(with_skill(path)).startswith(f"{name}: ")


@pytest.mark.parametrize("path", HOSTILE)
def test_the_title_is_one_short_line_that_notifies_nobody(path):
    text = title(with_skill(path))
    assert len(text) < 130
    assert not {"@", "#", "\n"} & set(text)


ANSWER_LINKS = Links("https://github.com/octo/skills")
EDIT = EditRecord(op="append", content="- Be kind", status="applied_append", note_ids=("issue-1",))


def step(
    action: str = "accept",
    proposed: int = 1,
    taken: int = 1,
    edit: EditRecord = EDIT,
    text: str = "Kind!",
) -> StepRecord:
    note = ReviewerNoteRecord(id="issue-1", author="wen", text=text, proposed=proposed, taken=taken)
    made = record(entry(3, action=action, score_before=0.5, score_after=0.625))
    changes = {"edits": (edit,), "reviewer_notes": (note,), "skill_after": "b" if taken else "a"}
    return altered(made, {"compared": 8}, **changes)


def answer(step: StepRecord, commit: str = SHA) -> str:
    return comment.note_answers("demo", step, commit, ANSWER_LINKS)["issue-1"]


def test_an_answer_begins_with_a_marker_of_its_own():
    assert answer(step()).startswith("<!-- skillopt-ci:v1 key=demo/note%20issue-1 -->\n\n**Merged")
    text = answer(step())
    assert "0.500 → 0.625 on 8 tasks" in text
    stopped = {"measurement": Measurement(hard=0, soft=0, score=0, planned=40)}
    assert "→ &#126;0.625 on 8 of 40 tasks, which" in answer(altered(step("reject"), stopped))
    assert "add “Be kind”" in text
    assert f"/commit/{SHA}" in text


@pytest.mark.parametrize(
    ("made", "fate", "word"),
    [
        (step("reject"), Fate.REVERTED, "**Reverted.**"),
        (step().model_copy(update={"decision": None}), Fate.IN_FLIGHT, "**In flight.**"),
        (step("reject", taken=0), Fate.NOT_CARRIED_OUT, "proposed 1 edit to follow it"),
        (step("reject", proposed=0, taken=0), Fate.NOT_TAKEN_UP, "**Not taken up.**"),
    ],
)
def test_every_fate_has_its_words(made, fate, word):
    assert [one.fate for one in note_outcomes(made)] == [fate]
    assert word in answer(made)
    assert f"({fate})" in candidate(made).body


def test_the_guards_reason_is_told():
    refused = EDIT.model_copy(update={"status": "skipped_guard", "reason": "it has a secret"})
    text = answer(step("reject", taken=0, edit=refused))
    assert "none went into the candidate: it has a secret" in text
    assert "(not applied)" in text
    assert "simulated" in answer(step().model_copy(update={"simulated": True}))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_edits_and_notes_are_inert(text):
    said = answer(step(edit=EDIT.model_copy(update={"content": text, "target": text})))
    assert "@everyone" not in said
    assert "](http" not in said.replace(f"](https://github.com/octo/skills/commit/{SHA}", "")
    assert "<img" not in said
    said = candidate(step(text=text)).body.split("Reviewer guidance:\n\n")[1]
    assert "\n" not in said
    assert "@everyone" not in said

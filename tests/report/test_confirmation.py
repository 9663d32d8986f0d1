"""What a run claims: what fresh attempts confirmed, and what is provisional."""

import json
from dataclasses import replace

import pytest
from run_views import REPOSITORY, entry, plain_run

from skillopt_ci.ledger.folder import RunFolder, standing_files
from skillopt_ci.ledger.records import Confirmed, HistoryEntry, State
from skillopt_ci.report.comment import body, confirmation_check, event_line, pinned_comment, title
from skillopt_ci.report.html_page import Evidence, Version, build_page
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.terminal import log_row, status_rows
from skillopt_ci.report.view import RunView

LINKS = Links(REPOSITORY)
GAIN = "+0.310 over the initial skill on 38 fresh pairs"
PROVISIONAL = "Provisional: fresh attempts have yet to confirm"


def fresh(action: str, reason: str = GAIN, *, step: int = 3) -> HistoryEntry:
    facts = {"score_before": 0.1, "score_after": 0.41, "tasks": 38, "skill_sha256": "now"}
    return entry(step, kind="confirm", action=action, reason=reason, **facts)


def run_with(*more: HistoryEntry, confirmed: str = "first") -> RunView:
    run, known = plain_run(3), Confirmed(sha256=confirmed, step=0)
    state = State.model_validate({**run.state.model_dump(), "confirmed": known})
    return replace(run, state=state, history=(*run.history, *more))


@pytest.mark.parametrize(
    ("run", "claim", "conclusion"),
    [
        (run_with(), f"{PROVISIONAL} step 1, step 3", None),
        (run_with(fresh("open")), f"{PROVISIONAL} step 1, step 3; so far {GAIN}", None),
        (run_with(fresh("refuted", "-0.200 over it")), "Refuted: -0.200 over it", "failure"),
        (run_with(fresh("confirmed"), confirmed="now"), f"Confirmed: {GAIN}", "success"),
        (
            run_with(fresh("confirmed"), entry(4, action="accept")),
            f"{PROVISIONAL} step 4. Confirmed after step 3: {GAIN}",
            None,
        ),
    ],
)
def test_headline_check_and_status_say_what_is_confirmed(run, claim, conclusion):
    check = confirmation_check(run, LINKS)
    assert (check.name, check.title, check.conclusion) == ("skillopt/confirmed", claim, conclusion)
    assert f"**{claim}.**" in pinned_comment(run, LINKS)
    assert f"**{claim}.**" in body(run, LINKS)
    assert ("fresh attempts", claim) in status_rows(run)
    assert (", provisional" in title(run)) == (conclusion is None)
    refuted = conclusion == "failure"
    marks = {run.mark(one) for one in run.history} - {""}
    assert (", refuted" in title(run), "refuted" in marks) == (refuted, refuted)
    assert ("> [!CAUTION]" in body(run, LINKS)) == refuted
    page = build_page(Evidence(run, (Version("now", "text"),)))
    assert ('class="warning"' in page, "refuted</span>" in page) == (refuted, refuted)
    assert ("refuted: -0.200 over it" in page) == refuted
    files = standing_files(RunFolder("demo"), run.state, None, "m", "2026-11-23")
    badge, card = (json.loads(text or "") for text in files.values())
    assert card["provisional"] == ("provisional" in badge["message"]) == (conclusion != "success")


def test_a_comment_and_the_log_have_the_same_word_for_what_cannot_be_told_yet():
    one = fresh("open")
    assert ("provisional" in event_line(one), "provisional" in log_row(one)[-1]) == (True, True)
    assert " tasks" not in event_line(one)  # its pairs are in the verdict
    again = entry(1, kind="measure", action="measure", score_after=0.6)
    assert event_line(again).endswith(f" on {again.tasks} tasks")


def test_a_skill_or_scoring_that_was_changed_since_is_neither_confirmed_nor_refuted():
    again = entry(3, kind="measure", skill_sha256="now")
    run = run_with(fresh("confirmed"), again, confirmed="now")
    assert run.claim == f"Confirmed, before scoring changed: {GAIN}"
    taken = entry(4, kind="revert", action="revert")
    run = replace(run_with(fresh("confirmed"), taken, confirmed="now"), skill="# Without it\n")
    assert ("fresh attempts", f"Confirmed after step 3: {GAIN}") in status_rows(run)
    for action in ("refuted", "open"):
        run = replace(run_with(fresh(action), taken), skill="# Without it\n")
        assert (run.claim, run.refuted) == (f"{PROVISIONAL} step 1, step 3", False)
    assert replace(run, history=plain_run(41).history).claim.endswith("step 15 and 13 more")


def test_a_run_that_began_without_it_says_nothing_of_it():
    run = plain_run(3)
    assert (run.claim, confirmation_check(run, LINKS)) == ("", None)
    files = standing_files(RunFolder("demo"), run.state, None, "m", "2026-11-23")
    assert not any("provisional" in (text or "") for text in files.values())
    assert "rovisional" not in title(run) + pinned_comment(run, LINKS)


def test_steps_are_marked():
    run = run_with(fresh("confirmed"), entry(4, action="accept"))
    marks = [run.mark(one) for one in run.history]
    assert marks == ["", "confirmed", "", "confirmed", "", "provisional"]
    taken = entry(1, kind="revert", action="revert")
    run = replace(run, history=(*run.history[:2], taken, *run.history[2:]))
    assert [run.mark(one) for one in run.history][:3] == ["", "taken back", ""]
    assert " merged (1 taken back), " in run.counts_text

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.ledger.records import State
from skillopt_ci.report.terminal import status_json, status_rows, tally

if TYPE_CHECKING:
    from tests.report.conftest import Make

COMMIT = "0123456789abcdef"


def test_steps_are_counted_by_what_became_of_them(make_entry: Make) -> None:
    history = [
        make_entry(kind="start", action="start"),
        make_entry(),
        make_entry(action="accept"),
        make_entry(action="reject"),
        make_entry(action="reject", score_after=None),
        make_entry(action="skip_no_patches", score_after=None),
    ]
    assert tally(history) == {"merged": 2, "reverted": 1, "empty": 2}


def test_the_run_at_a_glance(state: State, make_entry: Make) -> None:
    start = make_entry(kind="start", score_after=0.5)
    assert status_rows(state, [start, make_entry()], COMMIT) == (
        ("skill", "SKILL.md"),
        ("branch at", "0123456789"),
        ("last step", "3 (epoch 2)"),
        ("steps", "1 merged, 0 reverted"),
        ("started at", "0.500 [0.15, 0.85] n=4"),
        ("current", "0.750 [0.30, 0.95] n=4 (step 3)"),
        ("best", "0.750 [0.30, 0.95] n=4 (step 3)"),
        ("used", "20 calls, 4,100 tokens, cost unknown (no price known)"),
    )


def test_before_the_first_step_there_is_none(state: State) -> None:
    rows = dict(status_rows(state.model_copy(update={"step": 0}), [], COMMIT))
    assert (rows["last step"], rows["started at"]) == ("none yet", "–")


def test_steps_without_a_candidate_are_named_if_there_are_any(
    state: State, make_entry: Make
) -> None:
    entry = make_entry(action="skip_no_patches", score_after=None)
    rows = dict(status_rows(state, [entry], COMMIT))
    assert rows["steps"] == "0 merged, 0 reverted, 1 without a candidate"


def test_programs_get_the_same_as_numbers(state: State, make_entry: Make) -> None:
    start = make_entry(kind="start", score_after=0.5)
    found = status_json(state, [start, make_entry()], COMMIT)
    assert (found["score_initial"], found["score_current"], found["merged"]) == (0.5, 0.75, 1)
    assert (found["commit"], found["cost_usd"], found["tokens"]) == (COMMIT, None, 4100)

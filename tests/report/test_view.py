from dataclasses import replace

import pytest
from run_views import entry, plain_run, state

from skillopt_ci.ledger.evidence import PatternRecord
from skillopt_ci.ledger.summary import MEASURED_ANEW
from skillopt_ci.report.terminal import status_json
from skillopt_ci.report.view import StepPlace
from skillopt_ci.report.words import failures

MEASURE = {"kind": "measure", "action": "measure", "score_after": 0.5}


def test_a_measurement_of_the_same_text_starts_a_new_scale():
    run = plain_run(1)
    found = replace(run, history=(*run.history, entry(1, **MEASURE)))
    assert (found.first_score, found.rescaled) == (0.5, True)
    assert status_json(found, {})["score_initial"] == 0.5
    run, edited = plain_run(1), entry(1, **MEASURE, skill_sha256="by hand")
    found = replace(run, history=(*run.history, edited))
    assert (found.first_score, found.rescaled) == (0.1, False)
    both = entry(1, **MEASURE, skill_sha256="by hand", reason=f"by hand, and {MEASURED_ANEW}")
    assert replace(run, history=(*run.history, both)).rescaled


@pytest.mark.parametrize(
    ("steps", "base_events", "improved"), [(0, 0, False), (1, 0, True), (2, 2, False), (3, 2, True)]
)
def test_an_improvement_is_a_merged_step_that_base_lacks(steps, base_events, improved):
    assert replace(plain_run(steps), base_events=base_events).improved is improved


@pytest.mark.parametrize(("after", "now"), [(0.1, 0.2), (0.2, 0.1), (0.2, 0.2)])
def test_what_an_open_gate_let_in_is_an_improvement_only_with_a_better_score(after, now):
    run, forced = plain_run(0), {"kind": "slow_update", "action": "force_accept"}
    end = entry(0, **forced, score_before=0.1, score_after=after)
    assert replace(run, history=(*run.history, end), state=state(now, 0)).improved is (after == now)


def test_a_step_whose_commits_are_gone_is_nowhere():
    assert plain_run(1).place(99) == StepPlace()


def pattern(description: str, count: int, *tasks: str) -> PatternRecord:
    return PatternRecord(description=description, count=count, task_ids=tasks)


def test_what_several_analysts_name_is_one_pattern_and_the_commonest_comes_first():
    found = failures([pattern("date", 2, "a"), pattern("tax", 2, "a", "b"), pattern("tax", 1, "c")])
    assert found == [pattern("tax", 3, "a", "b", "c"), pattern("date", 2, "a")]

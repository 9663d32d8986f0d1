import json
from typing import Any

from skillopt_ci.action.outputs import Outputs, fold

STEP = {
    "step": 1,
    "action": "accept",
    "score_before": 0.5,
    "score_after": 0.625,
    "commit": "c1",
    "cost_usd": 0.25,
}


def step(**other: Any) -> dict[str, Any]:
    return {**STEP, **other}


def test_a_step() -> None:
    outputs = fold([STEP])
    assert outputs == Outputs(
        action="accept",
        step="1",
        score_before="0.5",
        score_after="0.625",
        improved="true",
        commit="c1",
        cost_usd="0.25",
    )


def test_steps_are_told_from_the_first_score_to_the_last() -> None:
    second = step(step=2, action="reject", score_before=0.625, score_after=0.5, commit="c2")
    outputs = fold([STEP, second])
    assert (outputs.score_before, outputs.score_after) == ("0.5", "0.5")
    assert (outputs.step, outputs.action, outputs.commit) == ("2", "reject", "c2")
    assert outputs.improved == "true"
    assert outputs.cost_usd == "0.5"


def test_a_reverted_step_did_not_improve() -> None:
    assert fold([step(action="reject")]).improved == "false"


def test_an_unknown_cost_is_not_a_small_one() -> None:
    assert fold([STEP, step(cost_usd=None)]).cost_usd == ""


def test_a_step_without_candidate_has_no_score_after() -> None:
    assert fold([step(action="skip_no_patches", score_after=None)]).score_after == ""


def test_a_comparison() -> None:
    result = {"skills": [{"hard": 0.1}, {"hard": 0.3}], "difference": {"hard": 0.2}, "cost_usd": 0}
    outputs = fold([result])
    assert (outputs.score_before, outputs.score_after, outputs.improved) == ("0.1", "0.3", "true")


def test_one_skill_alone_is_not_compared() -> None:
    outputs = fold([{"skills": [{"hard": 0.1}], "difference": None, "cost_usd": 0}])
    assert (outputs.score_before, outputs.score_after, outputs.improved) == ("", "0.1", "")


def test_a_matrix_is_one_line_of_json() -> None:
    outputs = fold([{"matrix": {"shard": ["1/2", "2/2"]}, "phase": "rollout"}])
    assert json.loads(outputs.matrix) == {"shard": ["1/2", "2/2"]}
    assert "\n" not in outputs.matrix
    assert outputs.phase == "rollout"


def test_where_training_stands() -> None:
    result = {"score_initial": 0.1, "score_current": 0.4, "step": 3, "commit": "c3"}
    assert fold([result]).improved == "true"
    assert fold([{**result, "score_initial": None}]).improved == ""


def test_nothing_printed_is_nothing_said() -> None:
    assert fold([]) == Outputs()


def test_the_end_of_a_run_compares_on_the_test_tasks() -> None:
    end = {
        "step": 9,
        "commit": "c9",
        "initial": {"test": {"hard": 0.1}},
        "best": {"test": {"hard": 0.9}},
        "best_gain": {"mean": 0.8},
    }
    outputs = fold([end])
    assert (outputs.score_before, outputs.score_after, outputs.improved) == ("0.1", "0.9", "true")
    assert fold([{**end, "best": {"test": None}, "best_gain": None}]).improved == ""


def test_a_run_that_ends_is_told_by_its_steps() -> None:
    end = {"step": 9, "commit": "c9", "initial": {}, "best": {}, "best_gain": None}
    outputs = fold([STEP, end])
    assert (outputs.action, outputs.commit, outputs.cost_usd) == ("accept", "c9", "0.25")

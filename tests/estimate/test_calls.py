from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.estimate.estimate import (
    ANALYST,
    JUDGE,
    LEARNING_RATE,
    MERGE,
    RACE,
    RANKING,
    REWRITE,
    ROLLOUT,
    SELECTION,
    SLOW_ROLLOUT,
    TEST,
    Situation,
    Spread,
    boundary_calls,
    finish_calls,
    fitting,
    in_calls,
    joined,
    likely,
    merge_calls,
    minibatch_counts,
    start_calls,
    step_calls,
)
from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.plan import plan_step, total_steps

TASKS = [Task(id=f"t{n}", messages=(Message("user", f"q{n}"),)) for n in range(20)]
SITUATION = Situation(train=20, selection=10, test=30, total_steps=4)


def config(**sections: Any) -> Config:
    role = {"provider": "simulated", "model": "s"}
    return Config.model_validate(
        {
            "run": "r",
            "skill": "SKILL.md",
            "tasks": {"train": "a", "selection": "b"},
            "model": {"target": role, "optimizer": role},
            "train": {"num_epochs": 2, "batch_size": 10},
            **sections,
        }
    )


def calls_of(settings: Config, step: int = 1, situation: Situation = SITUATION) -> Any:
    plan = plan_step(TASKS, settings.train, step)
    assert total_steps(len(TASKS), settings.train) >= step
    return step_calls(settings, plan, situation)


def test_the_first_epoch_makes_every_attempt_and_later_ones_may_know_some() -> None:
    assert calls_of(config(), 1)[ROLLOUT] == Spread(10, 10, 10)
    assert calls_of(config(), 3)[ROLLOUT] == Spread(0, 10, 10)


def test_analysts_read_minibatches_of_failures_and_of_successes() -> None:
    # 5 failures and 5 successes likely; 8 alike and 2 errors at least; 9 and 1 at most
    eight = {"minibatch_size": 8}
    alone = {"evidence": 0}
    found = calls_of(config(evaluation={"max_error_rate": 0.2}, gradient={**eight, **alone}))
    assert (found[ANALYST].low, found[ANALYST].high) == (1, 6)
    small = calls_of(config(gradient={"minibatch_size": 2, **alone}))
    assert (small[ANALYST].low, small[ANALYST].high) == (4, 12)


def test_evidence_makes_more_minibatches() -> None:
    small = {"minibatch_size": 2, "evidence": 40}
    assert calls_of(config(gradient=small))[ANALYST].high == 2 * 21
    assert calls_of(config(gradient={**small, "evidence": 0}))[ANALYST].high == 2 * 6


def test_long_trajectories_make_minibatches_small() -> None:
    gradient = Gradient(minibatch_size=40, max_minibatch_chars=20_000, max_trajectory_chars=5_000)
    assert fitting(gradient, 1_000).minibatch_size == 20
    assert fitting(gradient, 100_000).minibatch_size == 4
    assert fitting(gradient, 10).minibatch_size == 40


def test_several_attempts_are_counted_wherever_they_are_made() -> None:
    twice = config(rollout={"attempts": 2})
    assert calls_of(twice)[ROLLOUT] == Spread(20, 20, 20)
    assert start_calls(twice, SITUATION)[SELECTION] == Spread(20, 20, 20)
    assert finish_calls(twice, SITUATION)[TEST] == Spread(60, 120, 180)
    assert boundary_calls(twice, 2, SITUATION)[SLOW_ROLLOUT].high == 80
    assert calls_of(twice)[SELECTION].high == 20


def test_a_race_is_counted_and_may_foresee_rollouts() -> None:
    race = {"race": {"arms": 4, "tasks": 5, "heats": 2}}
    found = calls_of(config(evaluation=race))
    assert found[RACE] == Spread(0, 40, 40)
    assert found[ROLLOUT].low == 0
    assert RACE not in joined([calls_of(config())])


@pytest.mark.parametrize(
    ("gate", "most"),
    [
        ({}, 10),
        ({"policy": "sequential", "attempts": 3}, 50),
        ({"remeasure": True}, 20),
        ({"subset": 4, "policy": "sequential", "attempts": 2}, 18),
    ],
)
def test_a_gate_says_how_much_a_candidate_is_measured(gate: Any, most: int) -> None:
    found = calls_of(config(evaluation={"gate": gate}))[SELECTION]
    assert (found.low, found.high) == (0, most)


def test_an_attempt_of_an_agent_is_many_calls() -> None:
    agents = replace(SITUATION, calls=(0, 6.5, 50))
    counted = in_calls({ROLLOUT: Spread(10, 10, 10), ANALYST: Spread(1, 2, 4)}, agents)
    assert counted == {ROLLOUT: Spread(0, 65, 500), ANALYST: Spread(1, 2, 4)}


def test_what_is_likely_stays_within_what_is_possible() -> None:
    bounds = {ROLLOUT: Spread(5, 5, 10), ANALYST: Spread(2, 2, 4)}
    found = likely(bounds, {ROLLOUT: 7.4, MERGE: 3})
    assert found == {ROLLOUT: Spread(5, 7, 10), ANALYST: Spread(2, 2, 4)}


def test_a_learning_rate_of_nothing_asks_nobody() -> None:
    nothing = {"learning_rate": 0, "min_learning_rate": 0}
    assert set(joined([calls_of(config(optimizer=nothing))])) == {ROLLOUT, SELECTION}


@pytest.mark.parametrize(
    ("optimizer", "asked"),
    [
        ({}, {RANKING}),
        ({"lr_control_mode": "none"}, set()),
        ({"lr_control_mode": "autonomous"}, {RANKING, LEARNING_RATE}),
        ({"skill_update_mode": "rewrite_from_suggestions"}, {RANKING, REWRITE}),
        ({"skill_update_mode": "full_rewrite_minibatch"}, set()),
    ],
)
def test_modes_ask_what_they_need(optimizer: Any, asked: Any) -> None:
    found = joined([calls_of(config(optimizer=optimizer))])
    assert set(found) & {RANKING, LEARNING_RATE, REWRITE} == asked


def test_epoch_ends_ask_from_the_second_on() -> None:
    assert boundary_calls(config(), 1, SITUATION) == {}
    sample = {"slow_update_samples": 5}
    assert boundary_calls(config(optimizer=sample), 2, SITUATION)[SLOW_ROLLOUT].high == 10
    changed = {**sample, "longitudinal_pair_policy": "changed"}
    assert boundary_calls(config(optimizer=changed), 2, SITUATION)[SLOW_ROLLOUT].high == 40
    off = {"use_slow_update": False, "use_meta_skill": False}
    assert boundary_calls(config(optimizer=off), 2, SITUATION) == {}


def test_start_and_end_measure_whole_splits() -> None:
    assert joined([start_calls(config(), SITUATION)]) == {SELECTION: Spread(10, 10, 10)}
    assert finish_calls(config(), SITUATION)[TEST] == Spread(30, 60, 90)
    assert finish_calls(config(evaluation={"eval_test": False}), SITUATION) == {}


def test_the_judge_is_asked_for_every_attempt() -> None:
    judged = Situation(train=20, selection=10, test=0, total_steps=4, judged=2)
    assert in_calls(start_calls(config(), judged), judged)[JUDGE] == Spread(0, 20, 40)
    assert in_calls(calls_of(config(), 1, judged), judged)[JUDGE] == Spread(0, 40, 80)
    # the judge is asked of attempts, however many calls these take
    agents = replace(judged, calls=(0, 6.5, 50))
    assert in_calls(start_calls(config(), agents), agents)[JUDGE] == Spread(0, 20, 40)


@pytest.mark.parametrize(
    ("patches", "size", "expected"),
    [(0, 8, 0), (1, 8, 0), (2, 8, 1), (8, 8, 1), (9, 8, 2), (17, 8, 3)],
)
def test_merging_is_a_tree(patches: int, size: int, expected: int) -> None:
    assert merge_calls(patches, size) == expected


@given(st.integers(0, 500), st.integers(2, 20))
def test_more_patches_never_take_fewer_merges(patches: int, size: int) -> None:
    assert merge_calls(patches, size) <= merge_calls(patches + 1, size)


@given(st.data(), st.integers(1, 40), st.integers(1, 12), st.booleans(), st.integers(0, 60))
def test_whatever_fails_the_number_of_analysts_is_within_bounds(
    data: Any, batch: int, size: int, failure_only: bool, evidence: int
) -> None:
    settings = config(
        train={"batch_size": batch, "num_epochs": 1},
        gradient={"minibatch_size": size, "failure_only": failure_only, "evidence": evidence},
        evaluation={"max_error_rate": 0.2},
    )
    count = min(batch, len(TASKS))
    errors = data.draw(st.integers(0, int(0.2 * count)))
    failed = data.draw(st.integers(0, count - errors))
    recalled = data.draw(st.integers(0, max(0, evidence - (count - errors))))
    failed += data.draw(st.integers(0, recalled))
    made = sum(minibatch_counts(count - errors + recalled, failed, settings.gradient))
    bounds = calls_of(settings)[ANALYST]
    assert bounds.low <= made <= bounds.high
    assert bounds.low <= bounds.likely <= bounds.high

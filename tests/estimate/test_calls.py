from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.estimate import calls
from skillopt_ci.estimate.calls import ANALYST, ROLLOUT, SELECTION, Assumed, Range, assumed
from skillopt_ci.messages import Message
from skillopt_ci.model.types import Account
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.training.plan import Sizes, plan_step, sizes_of, total_steps

TASKS = [Task(id=f"t{n}", messages=(Message("user", f"q{n}"),)) for n in range(20)]
SIZES = Sizes(train=20, selection=10, test=30)


def config(**sections: Any) -> Config:
    role = {"provider": "simulated", "model": "s"}
    sections["gradient"] = {"failure_only": False, **sections.get("gradient", {})}
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


def calls_of(settings: Config, step: int = 1, sizes: Sizes = SIZES) -> Any:
    assert total_steps(len(TASKS), settings.train) >= step
    return forecast(settings, sizes).step(plan_step(TASKS, settings.train, step))


def forecast(settings: Config, sizes: Sizes = SIZES) -> calls.Forecast:
    return calls.Forecast(settings, sizes, 4, Assumed(), chars=1)


def test_the_first_epoch_makes_every_attempt_and_later_ones_may_know_some():
    assert [calls_of(config(), n)[ROLLOUT] for n in (1, 3)] == [Range(10, 10, 10), Range(0, 10, 10)]


def test_each_minibatch_is_read_and_its_patches_are_merged_as_often_as_there_are_analysts():
    one, three = (
        calls_of(config(gradient={"failure_only": True, "analysts": count})) for count in (1, 3)
    )
    assert three[ANALYST] == one[ANALYST] * 3
    assert (one[calls.MERGE].likely, three[calls.MERGE].likely) == (0, 1)


def test_analysts_read_minibatches_of_failures_and_of_successes():
    # 5 failures and 5 successes likely; 8 alike and 2 errors at least; 9 and 1 at most
    eight, alone = {"minibatch_size": 8}, {"evidence": 0}
    found = calls_of(config(evaluation={"max_error_rate": 0.2}, gradient={**eight, **alone}))
    assert (found[ANALYST].low, found[ANALYST].high) == (1, 6)
    small = calls_of(config(gradient={"minibatch_size": 2, **alone}))
    assert (small[ANALYST].low, small[ANALYST].high) == (4, 12)
    small = {"minibatch_size": 2, "evidence": 40}
    assert calls_of(config(gradient=small))[ANALYST].high == 2 * 21
    assert calls_of(config(gradient={**small, "evidence": 0}))[ANALYST].high == 2 * 6


def test_long_trajectories_make_minibatches_small():
    gradient = Gradient(minibatch_size=40, max_minibatch_chars=20_000, max_trajectory_chars=5_000)
    assert calls.fitting(gradient, 1_000).minibatch_size == 20
    assert calls.fitting(gradient, 100_000).minibatch_size == 4
    assert calls.fitting(gradient, 10).minibatch_size == 40


def test_several_attempts_are_counted_wherever_they_are_made():
    twice = config(rollout={"attempts": 2})
    assert calls_of(twice)[ROLLOUT] == Range(20, 20, 20)
    assert forecast(twice).start()[SELECTION] == Range(20, 20, 20)
    assert forecast(twice).finish()[calls.TEST] == Range(60, 120, 180)
    assert forecast(config(evaluation={"eval_test": False})).finish() == {}
    assert forecast(twice).epoch_end(2)[calls.SLOW_ROLLOUT].high == 80
    assert calls_of(config(train={"batch_size": 15, "accumulation": 3}))[ROLLOUT].low == 15 + 5 + 15


def test_a_candidate_is_measured_on_each_task_at_most_once():
    found = calls_of(config())[SELECTION]
    assert (found.low, found.high) == (0, 10)
    made = {ROLLOUT: Range(10, 10, 10), ANALYST: Range(1, 2, 4)}
    counted = calls.in_calls(made, Range(0, 6.5, 50))
    assert counted == {ROLLOUT: Range(0, 65, 500), ANALYST: Range(1, 2, 4)}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_what_is_likely_stays_within_what_is_possible(share):
    plan = plan_step(TASKS, config().train, 1)
    supposed = Assumed(solved=share, accepted=share, empty=1 - share)
    for count in calls.Forecast(config(), SIZES, 4, supposed, chars=1).step(plan).values():
        assert count.low <= count.likely <= count.high


def test_a_learning_rate_of_nothing_asks_nobody():
    nothing = {"learning_rate": 0, "min_learning_rate": 0}
    assert set(calls.joined([calls_of(config(optimizer=nothing))])) == {ROLLOUT, SELECTION}


@pytest.mark.parametrize(
    ("optimizer", "asked"),
    [
        ({}, {calls.RANKING}),
        ({"lr_control_mode": "none"}, set()),
        ({"lr_control_mode": "autonomous"}, {calls.RANKING, calls.LEARNING_RATE}),
        ({"skill_update_mode": "rewrite_from_suggestions"}, {calls.RANKING, calls.REWRITE}),
        ({"skill_update_mode": "full_rewrite_minibatch"}, set()),
    ],
)
def test_modes_ask_what_they_need(optimizer, asked):
    found = calls.joined([calls_of(config(optimizer=optimizer))])
    assert set(found) & {calls.RANKING, calls.LEARNING_RATE, calls.REWRITE} == asked


def test_epoch_ends_ask_from_the_second_on():
    assert forecast(config()).epoch_end(1) == {}
    sample = {"slow_update_samples": 5}
    assert forecast(config(optimizer=sample)).epoch_end(2)[calls.SLOW_ROLLOUT].high == 10
    changed = {**sample, "longitudinal_pair_policy": "changed"}
    assert forecast(config(optimizer=changed)).epoch_end(2)[calls.SLOW_ROLLOUT].high == 40
    off = {"use_slow_update": False, "use_meta_skill": False}
    assert forecast(config(optimizer=off)).epoch_end(2) == {}


@pytest.mark.parametrize("effort", [Range(1, 1, 1), Range(0, 6.5, 50)])
def test_the_judge_is_asked_for_every_attempt(effort):
    # however many calls an attempt takes
    assert calls.in_calls(forecast(config()).start(), effort, 2)[calls.JUDGE] == Range(0, 20, 40)
    assert calls.in_calls({ROLLOUT: Range(10, 10, 10)}, effort, 2)[calls.JUDGE] == Range(0, 20, 40)


@pytest.mark.parametrize(
    ("patches", "size", "expected"),
    [(0, 8, 0), (1, 8, 0), (2, 8, 1), (8, 8, 1), (9, 8, 2), (17, 8, 3)],
)
def test_merging_is_a_tree(patches, size, expected):
    assert calls.merged(0, patches, Gradient(merge_batch_size=size)) == expected


@given(st.data(), st.integers(1, 40), st.integers(1, 12), st.booleans(), st.integers(0, 60))
def test_the_number_of_analysts_is_always_within_bounds(data, batch, size, failure_only, evidence):
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
    made = sum(calls.minibatch_counts(count - errors + recalled, failed, settings.gradient))
    bounds = calls_of(settings)[ANALYST]
    assert bounds.low <= made <= bounds.high
    assert bounds.low <= bounds.likely <= bounds.high


MANY = [Task(id=f"t{n}", messages=(Message("user", f"q{n}"),)) for n in range(24)]


@dataclass
class Likely:
    """The likely calls of each step and of each epoch's end, by their numbers."""

    steps: dict[int, Counter[Account]] = field(default_factory=dict)
    epochs: dict[int, Counter[Account]] = field(default_factory=dict)


def likely(assumed: Assumed = Assumed(), made: int = 0, **sections: Any) -> Likely:  # noqa: B008
    settings = config(**{"train": {"num_epochs": 2, "batch_size": 8}, **sections})
    total = total_steps(len(MANY), settings.train)
    sizes = Sizes(train=24, selection=40, test=0)
    walk, found = calls.Forecast(settings, sizes, total, assumed, 1, made), Likely()
    for number in range(1, total + 1):
        plan = plan_step(MANY, settings.train, number)
        found.steps[number] = likely_counts(walk.step(plan))
        if plan.is_last_of_epoch:
            found.epochs[plan.epoch] = likely_counts(walk.epoch_end(plan.epoch))
    return found


def likely_counts(counts: calls.Calls) -> Counter[Account]:
    return Counter({account: count.likely for account, count in counts.items()})


def test_what_stays_gathers_evidence():
    small = {"gradient": {"minibatch_size": 4, "evidence": 80}}
    kept = likely(Assumed(accepted=0.0), **small)
    assert [kept.steps[n][ANALYST] for n in (1, 2, 3)] == [2, 4, 6]
    assert likely(Assumed(accepted=1.0, empty=0.0), **small).steps[3][ANALYST] < 4
    assert likely(Assumed(accepted=0.0), made=16, **small).steps[1][ANALYST] == 6


def test_rejections_are_told_early_where_little_is_to_gain():
    def measured(solved: float, accepted: float, **gate: Any) -> float:
        supposed = Assumed(solved=solved, accepted=accepted, empty=0.0)
        return likely(supposed, evaluation={"gate": {"look_every": 8, **gate}}).steps[1][SELECTION]

    assert measured(0.9, 0.0) == 8
    assert measured(0.5, 0.0) == 24
    assert measured(0.5, 1.0) == measured(0.5, 0.0, early_stop=False) == 40


def test_a_skill_that_stays_need_not_be_compared_anew():
    assert likely(Assumed(accepted=0.0)).epochs[2][calls.SLOW_ROLLOUT] == 0
    assert likely(Assumed(accepted=1.0, empty=0.0)).epochs[2][calls.SLOW_ROLLOUT] > 20


def settings(**sections: Any) -> Config:
    role = {"provider": "simulated", "model": "s"}
    told = {"run": "r", "skill": "S.md", "model": {"target": role, "optimizer": role}, **sections}
    if "environment" not in told:
        told["tasks"] = {"train": "a", "selection": "b"}
    return Config.model_validate(told)


def history(*actions: str) -> Any:
    return [SimpleNamespace(kind="step", action=one) for one in actions]


def record(attempts: int, asked: int) -> Any:
    usage = {"rollout": SimpleNamespace(calls=asked)}
    rollout = SimpleNamespace(tasks=(None,) * attempts)
    return SimpleNamespace(proposal=SimpleNamespace(rollout=rollout, usage=usage))


def test_history_speaks_the_louder_the_longer_it_is():
    assert assumed(settings(), None, (), (), 1) == Assumed()  # a rule of thumb
    little = assumed(settings(), 0.5, history("reject"), (), 1).accepted
    much = assumed(settings(), 0.5, history(*["reject"] * 20, "skip_no_patches"), (), 1)
    assert 0 < much.accepted < little < 0.5
    assert assumed(settings(), 0.5, history(*["accept_new_best"] * 20), (), 1).accepted > 0.9
    assert 0 < much.empty < 0.1


AGENT = {"solver": {"type": "agent"}, "computer": {"type": "unconfined"}}


@pytest.mark.parametrize(
    ("sections", "steps", "expected"),
    [
        ({}, [record(10, 80)], (1, 1.0, 1)),
        ({"rollout": AGENT}, [], (0, 10.0, 50)),
        ({"rollout": {**AGENT, "limits": {"steps": None}}}, [record(10, 80)], (0, 8.0, 200)),
        ({"rollout": {**AGENT, "limits": {"steps": 4}}}, [record(10, 80)], (0, 4.0, 4)),
        ({"rollout": {"solver": {"type": "scripted"}}}, [], (0, 0.0, 0)),
        ({"environment": {"type": "inspect", "task": "t.py"}}, [], (0, 1.0, 50)),
        ({"environment": {"type": "inspect", "task": "t.py"}}, [record(4, 12)], (0, 3.0, 50)),
    ],
)
def test_calls_of_an_attempt(sections, steps, expected):
    config = settings(**sections)
    answers = sizes_of(config, Splits((), (), ())).answers
    assert assumed(config, None, (), steps, answers).calls == Range(*expected)

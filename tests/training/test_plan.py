import random
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Config, Optimizer, Train
from skillopt_ci.errors import ConfigError
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import Basis, HistoryEntry, Snapshot, State
from skillopt_ci.messages import Message
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.training import plan
from skillopt_ci.training.plan import (
    Sizes,
    StepPlan,
    analyst_budget,
    calls_left,
    completed_epoch,
    edit_budget,
    extra_steps,
    final_test_calls,
    last_step,
    lr_control,
    most_calls,
    plan_step,
    planned,
    sizes_of,
    total_steps,
)

TASKS = tuple(Task(f"t{number}", (Message("user", "?"),)) for number in range(10))


def ids(plan: StepPlan) -> list[list[str]]:
    return [[task.id for task in batch.tasks] for batch in plan.batches]


def test_the_order_and_the_batch_seeds_of_an_epoch_are_the_documented_ones():
    order = list(TASKS)
    random.Random(7 + 2 * 1000).shuffle(order)
    plan = plan_step(TASKS, Train(batch_size=10, num_epochs=2, seed=7), 2)
    assert plan.batches[0].tasks == tuple(order)
    train = Train(batch_size=2, accumulation=2, num_epochs=2, seed=7)
    assert [batch.seed for batch in plan_step(TASKS, train, 2).batches] == [1010, 1011]
    assert [batch.seed for batch in plan_step(TASKS, train, 4).batches] == [2008, 2009]


def test_an_epoch_is_shuffled_once_for_all_its_steps():
    plan._order.cache_clear()
    for step in range(1, 11):
        plan_step(TASKS, Train(batch_size=2, num_epochs=2), step)
    assert plan._order.cache_info().misses == 2


def test_steps_go_on_counting_across_epochs():
    train = Train(batch_size=4, num_epochs=2)
    lasts = [step for step in range(1, 7) if plan_step(TASKS, train, step).is_last_of_epoch]
    assert lasts == [3, 6]
    assert len(plan_step(TASKS, train, 3).batches[0].tasks) == 2  # the last one may be short
    basis = Basis(config={"train": train.model_dump()}, train_size=10, train_sha256="")
    state = stands(4).model_copy(update={"basis": basis})  # an epoch and a third, of more tasks now
    plan = plan_step(TASKS * 2, train, 5, state)
    assert (plan.epoch, plan.step_in_epoch, total_steps(20, train, state)) == (2, 3, 7)


def test_a_batch_with_nothing_left_is_drawn_as_in_skillopts_plan():
    train = Train(batch_size=6, accumulation=3, seed=1)
    again = list(TASKS)
    random.Random(1 + 1000).shuffle(again)
    random.Random(1 + 1000 + 3).shuffle(again)
    assert plan_step(TASKS, train, 1).batches[2].tasks == tuple(again[:6])


def test_a_contradicting_train_size_is_a_configuration_error():
    with pytest.raises(ConfigError, match=r"train_size is 12, but there are 10"):
        total_steps(10, Train(train_size=12))


@given(
    n=st.integers(1, 30),
    size=st.integers(1, 12),
    accumulation=st.integers(1, 4),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    changes=st.lists(st.integers(1, 12), max_size=3),
)
def test_every_epoch_goes_through_all_tasks(n, size, accumulation, epochs, seed, changes):
    tasks = tuple(Task(str(number), ()) for number in range(n))
    train = Train(batch_size=size, accumulation=accumulation, num_epochs=epochs, seed=seed)
    plans = [plan_step(tasks, train, step + 1) for step in range(total_steps(n, train))]
    for epoch in range(1, epochs + 1):
        batches = [*chain(*(ids(plan) for plan in plans if plan.epoch == epoch))]
        assert sorted([*chain(*batches)][:n]) == sorted(task.id for task in tasks)
        assert all(0 < len(batch) == len(set(batch)) <= size for batch in batches)
    state, seen, sizes = stands(0), [], [size, *changes]
    while state.step < total_steps(n, train, state):  # each step with other batches than the last
        train = train.model_copy(update={"batch_size": sizes[state.step % len(sizes)]})
        plan = plan_step(tasks, train, state.step + 1, state)
        seen += [(plan.epoch, name) for batch in ids(plan) for name in batch]
        basis = Basis(config={"train": train.model_dump()}, train_size=n, train_sha256="")
        found = {"step": plan.step, "extra_steps": extra_steps(n, train, state), "basis": basis}
        state = state.model_copy(update=found)
    assert {*seen} == {(epoch + 1, task.id) for epoch in range(epochs) for task in tasks}


# -- a run within its budget -----------------------------------------------------------------------

SIZES = Sizes(train=128, selection=64, test=10)
OPEN = {"slow_update_gate_with_selection": False}


def configured(**sections: Any) -> Config:
    given = {
        "run": "r",
        "skill": "SKILL.md",
        "tasks": {"train": "a.jsonl", "selection": "b.jsonl"},
        "model": {
            role: {"provider": "simulated", "model": role} for role in ("target", "optimizer")
        },
    }
    return Config.model_validate({**given, **sections})


def stands(step: int, **usage: Any) -> State:
    measured = Measurement(hard=0.5, soft=0.5, score=0.5)
    text = Snapshot(sha256="", step=0, origin="initial", measurement=measured)
    return State.model_validate(
        {
            "run": "r",
            "skill": "SKILL.md",
            "step": step,
            "epoch": 1,
            "current": text,
            "best": text,
            "measured_under": "",
            "config_sha256": "",
            "usage": Usage(**usage),
        }
    )


def steps(*calls: int) -> list[HistoryEntry]:
    return [
        HistoryEntry(kind="step", step=1, epoch=1, action="reject", usage=Usage(calls=one))
        for one in calls
    ]


def test_without_a_budget_the_last_step_is_that_of_the_epochs():
    assert last_step(configured(), SIZES, None, ()) == 16
    assert last_step(configured(), SIZES, stands(16, calls=10_000), steps(900)) == 16


@pytest.mark.parametrize(
    ("spent", "made", "last"),
    [
        (0, (), 5),  # (480 - 20 for the tests) / (40 + 32 + 4)
        (100, (50,), 8),  # cheap so far: (480 - 20 - 100) / 50 more
        (348, (60, 60), 3),  # 112 are left: a step may take 40 + 64 + 8
        (349, (60, 60), 2),
    ],
)
def test_a_run_ends_when_its_budget_has_no_room_for_a_whole_step(spent, made, last):
    config = configured(budget={"run": {"calls": 480}}, train={"num_epochs": 9})
    state = stands(len(made), calls=spent) if made else None
    assert last_step(config, SIZES, state, steps(*made)) == last


def test_the_tests_are_set_aside_even_if_they_take_most_of_the_budget():
    config = configured(budget={"run": {"calls": 220}})
    assert calls_left(config, Sizes(48, 40, 60), None) == 220 - 2 * 60
    assert final_test_calls(config, Sizes(48, 40, 10, calls=2)) == 2 * 10 * 2
    # the last skill is tested, too, where it may not be the best one
    now, agents = stands(4), Sizes(48, 40, 10, calls=3)
    assert final_test_calls(config, agents, now) == 2 * 10 * 3
    for other in ({"score": 0.6}, {"words": 9}):  # a lower score, or the same of another text
        measured = now.best.measurement.model_copy(update=other)
        best = now.best.model_copy(update={"measurement": measured})
        apart = now.model_copy(update={"best": best})
        assert final_test_calls(config, agents, apart) == 3 * 10 * 3
    noted = {"optimizer": {"use_skill_aware_reflection": True}}
    for section in ({"evaluation": {"use_gate": False}}, {"optimizer": OPEN}, noted):
        opened = configured(budget={"run": {"calls": 220}}, **section)
        assert calls_left(opened, Sizes(48, 40, 60), None) == 220 - 3 * 60
    assert most_calls(opened, SIZES) == most_calls(configured(), SIZES) + 64  # reminders alone
    off = {"use_slow_update": False}
    assert final_test_calls(configured(optimizer={**OPEN, **off}), Sizes(48, 40, 60)) == 2 * 60
    config = configured(budget={"run": {"calls": 800}})
    assert completed_epoch(config, Sizes(48, 40, 60, calls=3), stands(6, calls=450)) is None
    assert completed_epoch(config, Sizes(48, 40, 60), stands(6, calls=450)) is not None


@pytest.mark.parametrize(
    ("rollout", "assumed", "measured"),
    [
        ({}, 1, 1),  # which is charged for abandoned work, too: a chat never takes three
        ({"solver": {"type": "agent"}, "attempts": 2}, 20, 3),
        ({"solver": {"type": "agent"}, "limits": {"steps": 4}}, 4, 3),
        ({"solver": {"type": "human"}}, 1, 1),
        ({"solver": {"type": "external", "agent": "codex"}}, 10, 3),
        ({"solver": {"type": "external", "agent": "command", "command": ["x"]}}, 1, 1),
    ],
)
def test_what_an_attempt_takes_is_assumed_until_the_first_score(rollout, assumed, measured):
    config, splits = configured(rollout=rollout), Splits(TASKS, TASKS, ())
    first = HistoryEntry(kind="start", step=0, epoch=0, action="start", usage=Usage(30), tasks=10)
    stored = first.model_copy(update={"usage": Usage()})
    histories = (), [stored], [first], [stored, *steps(9)]
    found = [sizes_of(config, splits, history).calls for history in histories]
    assert found == [assumed, assumed, measured, config.rollout.attempts]


def test_ends_of_epochs_after_the_first_are_part_of_the_plan():
    many = {"train": {"num_epochs": 99}, "budget": {"run": {"calls": 400}}}
    sizes = Sizes(20, 20, 0)
    assert last_step(configured(**many), sizes, None, ()) == 5
    off = {"use_slow_update": False}  # a meta skill alone compares skills and measures none
    assert last_step(configured(**many, optimizer=off), sizes, None, ()) == 6
    config = configured(**many, optimizer={**off, "use_meta_skill": False})
    assert last_step(config, sizes, None, ()) == 11  # (400 - 20) / (20 + 10 + 4)
    # a look at 16 tasks is more than half of them: none is spared
    assert last_step(config, Sizes(20, 20, 0, look=16), None, ()) == 8  # (400 - 20) / (20 + 20 + 4)
    assert last_step(configured(**many), Sizes(80, 20, 0), None, ()) == 6


def test_dollars_and_tokens_are_planned_by_what_a_call_took_so_far():
    config = configured(budget={"run": {"cost_usd": 4.8}}, train={"num_epochs": 9})
    assert last_step(config, SIZES, None, ()) == 36
    state = stands(1, calls=100, cost_usd=1.0)
    assert last_step(config, SIZES, state, steps(50)) == 1 + (480 - 20 - 100) // 50
    target = {Account("target", "a"): Usage(90, cost_usd=0.45)}
    now = config, Sizes(128, 64, 300), state.model_copy(update={"accounts": target})
    left = 380 - (600 + 64) / 2  # tests never ask the dear optimizer, nor does confirmation
    assert [calls_left(*now), calls_left(*now, attempts=True)] == pytest.approx([left, 2 * left])
    free = {"accounts": {Account("target", "a"): Usage(90, cost_usd=0.0)}}
    assert calls_left(config, SIZES, state.model_copy(update=free), attempts=True) == float("inf")
    over = state.model_copy(update={**free, "usage": Usage(100, cost_usd=4.9)})
    assert calls_left(config, SIZES, over, attempts=True) < 0  # no call is made any more


def tasks_of(*kinds: str) -> tuple[Task, ...]:
    return tuple(
        Task(f"s{number}", (Message("user", "?"),), task_type=kind)
        for number, kind in enumerate(kinds)
    )


def test_a_new_run_plans_its_tasks_and_epochs_within_its_calls():
    splits = Splits(TASKS, tasks_of(*["a"] * 75, *["b"] * 25), ())
    config, chosen = planned(configured(budget={"run": {"calls": 570}}), splits, None)
    assert (config.evaluation.sel_env_num, config.train.num_epochs) == (40, 64)
    assert config.gradient.analysts == 3
    # 64 steps of all the tasks, or of 40: in whole epochs, and smaller batches are parts of a step
    for times, size, epochs in ((13, 40, 16), (13, 4, 16), (13, 99, 32), (999, 40, 1)):
        large = configured(budget={"run": {"calls": 99_999}}, train={"batch_size": size})
        assert planned(large, Splits(TASKS * times, (), ()), None)[0].train.num_epochs == epochs
    one = {"skill_update_mode": "full_rewrite_minibatch"}
    role = {"provider": "openai", "model": "m"}
    alike = {"target": role, "optimizer": {**role, "temperature": 0}}
    for section in ({"optimizer": one}, {"model": alike}):
        given = configured(budget={"run": {"calls": 570}}, **section)
        assert planned(given, splits, None)[0].gradient.analysts == 1
    agents = {"budget": {"run": {"calls": 5700}}, "rollout": {"solver": {"type": "agent"}}}
    assert planned(configured(**agents), splits, None)[0].evaluation.sel_env_num == 40
    used = [task.task_type for task in chosen.selection[:40]]
    assert (used.count("a"), used.count("b")) == (30, 10)
    assert sorted(one.id for one in chosen.selection) == sorted(one.id for one in splits.selection)


@pytest.mark.parametrize(
    ("calls", "optimizer", "rates"),
    [
        (90, {}, (10, 5)),
        (230, {}, (10, 5)),
        (290, {}, (8, 4)),
        (460, {}, (6, 3)),
        (230, {"learning_rate": 5}, (5, 3)),
        (230, {"min_learning_rate": 2}, (6, 2)),
    ],
)
def test_a_budget_for_few_steps_makes_them_larger(calls, optimizer, rates):
    splits = Splits(TASKS * 13, tasks_of(*["a"] * 100), ())
    given = configured(budget={"run": {"calls": calls}}, optimizer=optimizer)
    found = planned(given, splits, None)[0].optimizer
    assert (found.learning_rate, found.min_learning_rate) == rates


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({}, 64),
        ({"rollout": {"attempts": 3}}, 22),
        ({"rollout": {"attempts": 5}}, 16),
        ({"evaluation": {"gate": {"look_every": 8}}}, 8),
        *(({"budget": {"run": {unit: 9}}}, 16) for unit in ("calls", "tokens", "cost_usd")),
        ({"budget": {"run": {"minutes": 9}}}, 64),
    ],
)
def test_without_a_budget_a_look_fills_all_calls_at_once(config, size):
    roles = {role: {"provider": "simulated", "model": role} for role in ("target", "optimizer")}
    roles["target"]["max_concurrency"] = 64
    splits = Splits(TASKS, TASKS, ())
    found = planned(configured(model=roles, **config), splits, None)[0]
    assert found.evaluation.gate.look_every == size


@pytest.mark.parametrize("budget", [{}, {"run": {"cost_usd": 3}}, {"step": {"calls": 99}}])
def test_without_a_budget_of_calls_nothing_is_left_out(budget):
    splits = Splits(TASKS, tasks_of(*["a"] * 200), ())
    assert planned(configured(budget=budget), splits, None) == (configured(budget=budget), splits)


def test_what_a_person_wrote_is_not_planned():
    splits = Splits(TASKS, tasks_of(*["a"] * 200), ())
    given = {"budget": {"run": {"calls": 570}}, "train": {"num_epochs": 3}}
    given["gradient"] = {"analysts": 2}
    config, chosen = planned(configured(**given, evaluation={"sel_env_num": 0}), splits, None)
    assert (config.evaluation.sel_env_num, config.train.num_epochs) == (0, 3)
    assert config.gradient.analysts == 2
    assert chosen is splits


def test_a_run_that_began_keeps_its_settings():
    recorded = {
        "train": {"num_epochs": 4},
        "optimizer": {"learning_rate": 4, "min_learning_rate": 2, "lr_scheduler": "constant"},
        "evaluation": {"sel_env_num": 0, "gate": {"look_every": 5}},
    }
    basis = Basis(config=recorded, train_size=10, train_sha256="")
    state = stands(3).model_copy(update={"basis": basis})
    given = configured(optimizer={"learning_rate": 7}, budget={"run": {"calls": 100}})
    config, _ = planned(given, Splits(TASKS, tasks_of(*["a"] * 200), ()), state)
    found = config.optimizer
    assert (found.learning_rate, found.min_learning_rate, found.lr_scheduler) == (7, 2, "constant")
    assert (config.train.num_epochs, config.evaluation.sel_env_num) == (4, 0)
    assert (config.gradient.analysts, config.evaluation.gate.look_every) == (1, 5)


def budgets(optimizer: Optimizer, total: int) -> list[int]:
    return [edit_budget(optimizer, step, total) for step in range(1, total + 1)]


@pytest.mark.parametrize(
    ("scheduler", "most", "least", "expected"),
    [
        ("constant", 8, 2, [8, 8, 8]),
        ("linear", 8, 2, [7, 6, 5, 4, 3, 2]),
        ("cosine", 16, 2, [15, 14, 12, 9, 6, 4, 3, 2]),
        ("linear", 3, 2, [2, 2]),  # halves are rounded to the even number
        ("cosine", 9, 2, [6, 2]),
        *((scheduler, 4, 2, [4]) for scheduler in ("constant", "linear", "cosine")),
        # an unset minimum never lifts a smaller maximum
        *((name, n, None, [n] * 4) for name in ("constant", "linear", "cosine") for n in (0, 1)),
    ],
)
def test_the_edit_budget_follows_its_schedule(scheduler, most, least, expected):
    rates = {"learning_rate": most} | ({} if least is None else {"min_learning_rate": least})
    optimizer = Optimizer.model_validate({**rates, "lr_scheduler": scheduler})
    assert budgets(optimizer, len(expected)) == expected
    assert edit_budget(optimizer, len(expected) + 5, len(expected)) == expected[-1]


@given(
    low=st.integers(0, 20),
    more=st.integers(0, 20),
    total=st.integers(1, 60),
    scheduler=st.sampled_from(["constant", "linear", "cosine"]),
)
def test_budgets_fall_and_stay_within_bounds(low, more, total, scheduler):
    rates = {"learning_rate": low + more, "min_learning_rate": low}
    optimizer = Optimizer.model_validate({**rates, "lr_scheduler": scheduler})
    found = budgets(optimizer, total)
    assert found == sorted(found, reverse=True)
    assert all(low <= budget <= low + more for budget in found)
    assert edit_budget(optimizer, 9, 9, 8) == edit_budget(optimizer, 9, 9)  # the last is left


@pytest.mark.parametrize(
    ("options", "control", "analysts"),
    [
        ({}, "fixed", 4),
        ({"lr_scheduler": "autonomous"}, "autonomous", 4),
        ({"lr_control_mode": "autonomous"}, "autonomous", 4),
        ({"lr_control_mode": "none"}, "none", None),
        ({"lr_control_mode": "none", "lr_scheduler": "autonomous"}, "none", None),
        *(
            ({"skill_update_mode": "full_rewrite_minibatch", **more}, "none", None)
            for more in ({}, {"lr_control_mode": "autonomous"})
        ),
        ({"skill_update_mode": "rewrite_from_suggestions"}, "fixed", 4),
    ],
)
def test_somebody_or_nobody_is_in_control(options, control, analysts):
    optimizer = Optimizer.model_validate({"learning_rate": 4, **options})
    assert (lr_control(optimizer), analyst_budget(optimizer)) == (control, analysts)

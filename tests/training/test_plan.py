import random
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Train
from skillopt_ci.errors import ConfigError
from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.plan import StepPlan, plan_step, steps_per_epoch, total_steps

TASKS = tuple(Task(f"t{number}", (Message("user", "?"),)) for number in range(10))


def ids(plan: StepPlan) -> list[list[str]]:
    return [[task.id for task in batch.tasks] for batch in plan.batches]


def test_the_order_of_an_epoch_is_the_documented_shuffle() -> None:
    order = list(TASKS)
    random.Random(7 + 2 * 1000).shuffle(order)
    plan = plan_step(TASKS, Train(batch_size=10, num_epochs=2, seed=7), 2)
    assert plan.batches[0].tasks == tuple(order)


def test_a_batch_seed_counts_the_batches_of_its_epoch() -> None:
    train = Train(batch_size=2, accumulation=2, num_epochs=2, seed=7)
    assert [batch.seed for batch in plan_step(TASKS, train, 2).batches] == [1010, 1011]
    assert [batch.seed for batch in plan_step(TASKS, train, 4).batches] == [2008, 2009]


def test_steps_go_on_counting_across_epochs() -> None:
    plan = plan_step(TASKS, Train(batch_size=4, num_epochs=2), 5)
    assert (plan.step, plan.epoch, plan.step_in_epoch) == (5, 2, 2)


def test_only_the_last_step_of_an_epoch_says_so() -> None:
    train = Train(batch_size=4, num_epochs=2)
    lasts = [step for step in range(1, 7) if plan_step(TASKS, train, step).is_last_of_epoch]
    assert lasts == [3, 6]


def test_the_last_batch_of_an_epoch_may_be_short() -> None:
    assert len(plan_step(TASKS, Train(batch_size=4), 3).batches[0].tasks) == 2


def test_a_batch_with_nothing_left_is_drawn_anew_by_its_own_seed() -> None:
    train = Train(batch_size=6, accumulation=3, seed=1)
    again = list(TASKS)
    random.Random(1 + 1000 + 3).shuffle(again)
    assert plan_step(TASKS, train, 1).batches[2].tasks == tuple(again[:6])


@pytest.mark.parametrize("step", [0, -1, 4])
def test_a_step_outside_the_run_is_refused(step: int) -> None:
    with pytest.raises(ValueError, match="within 1 to 3"):
        plan_step(TASKS, Train(batch_size=4, num_epochs=1), step)


def test_a_contradicting_train_size_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"train_size is 12, but there are 10"):
        total_steps(10, Train(train_size=12))


def test_steps_are_rounded_up() -> None:
    assert steps_per_epoch(41, batch_size=10, accumulation=2) == 3


@given(
    n=st.integers(1, 30),
    size=st.integers(1, 12),
    accumulation=st.integers(1, 4),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_every_epoch_goes_through_all_tasks(
    n: int, size: int, accumulation: int, epochs: int, seed: int
) -> None:
    tasks = tuple(Task(str(number), ()) for number in range(n))
    train = Train(batch_size=size, accumulation=accumulation, num_epochs=epochs, seed=seed)
    plans = [plan_step(tasks, train, step + 1) for step in range(total_steps(n, train))]
    for epoch in range(1, epochs + 1):
        seen = chain(*(chain(*ids(plan)) for plan in plans if plan.epoch == epoch))
        assert sorted(list(seen)[:n]) == sorted(task.id for task in tasks)


@given(n=st.integers(1, 20), size=st.integers(1, 9), accumulation=st.integers(1, 5))
def test_every_batch_has_tasks_and_no_task_twice(n: int, size: int, accumulation: int) -> None:
    tasks = tuple(Task(str(number), ()) for number in range(n))
    train = Train(batch_size=size, accumulation=accumulation, num_epochs=1)
    for step in range(total_steps(n, train)):
        for batch in ids(plan_step(tasks, train, step + 1)):
            assert 0 < len(batch) == len(set(batch)) <= size


def test_generated_batches_are_shuffled_whole_and_keep_their_seeds(make_task) -> None:
    tasks = [make_task(f"{seed}-{n}") for seed in range(43, 49) for n in range(2)]
    train = Train(num_epochs=2, batch_size=2, accumulation=3, seed=42, train_size=12)
    plans = [plan_step(tasks, train, step, first_seed=43) for step in range(1, 5)]
    for plan in plans:
        for batch in plan.batches:
            assert [task.id for task in batch.tasks] == [f"{batch.seed}-{n}" for n in range(2)]
    seeds = [[batch.seed for plan in plans[at : at + 2] for batch in plan.batches] for at in (0, 2)]
    expected = []
    for epoch in (1, 2):
        order = list(range(43, 49))
        random.Random(42 + epoch * 1000).shuffle(order)
        expected.append(order)
    assert seeds == expected

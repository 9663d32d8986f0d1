"""Courses of a run with dice: what is likely follows from what candidates come to."""

from typing import Any

from skillopt_ci.config.config import Config
from skillopt_ci.estimate.estimate import (
    ANALYST,
    RACE,
    ROLLOUT,
    SELECTION,
    SLOW_ROLLOUT,
    Assumed,
    Likely,
    Schedule,
    Situation,
    rehearse,
)
from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.plan import plan_step, total_steps

TASKS = [Task(id=f"t{n}", messages=(Message("user", f"q{n}"),)) for n in range(24)]


def likely(assumed: Assumed = Assumed(), made: int = 0, **sections: Any) -> Likely:  # noqa: B008
    role = {"provider": "simulated", "model": "s"}
    config = Config.model_validate(
        {
            "run": "r",
            "skill": "SKILL.md",
            "tasks": {"train": "a", "selection": "b"},
            "model": {"target": role, "optimizer": role},
            "train": {"num_epochs": 2, "batch_size": 8},
            **sections,
        }
    )
    total = total_steps(len(TASKS), config.train)
    plans = tuple(plan_step(TASKS, config.train, n) for n in range(1, total + 1))
    situation = Situation(train=24, selection=40, test=0, total_steps=total)
    return rehearse(config, Schedule(plans, (1, 2), made), TASKS, situation, assumed)


def test_it_is_the_same_every_time() -> None:
    assert likely() == likely()


def test_what_stays_gathers_evidence() -> None:
    small = {"gradient": {"minibatch_size": 4, "evidence": 80}}
    kept = likely(Assumed(accepted=0.0), **small)
    assert [kept.steps[n][ANALYST] for n in (1, 2, 3)] == [2, 4, 6]
    changed = likely(Assumed(accepted=1.0, empty=0.0), **small)
    assert changed.steps[3][ANALYST] < 4
    assert likely(Assumed(accepted=0.0), made=16, **small).steps[1][ANALYST] == 6


def test_rejections_are_told_early_where_little_is_to_gain() -> None:
    def measured(solved: float, accepted: float, **gate: Any) -> float:
        supposed = Assumed(solved=solved, accepted=accepted, empty=0.0)
        return likely(supposed, evaluation={"gate": {"look_every": 8, **gate}}).steps[1][SELECTION]

    assert measured(0.9, 0.0) == 8
    assert measured(0.5, 0.0) == 24
    assert measured(0.5, 1.0) == measured(0.5, 0.0, early_stop=False) == 40
    assert measured(0.5, 1.0, remeasure=True) == 80
    assert measured(0.5, 1.0, subset=10) == 40
    assert measured(0.5, 0.0, subset=10) == 8
    assert measured(0.5, 1.0, policy="sequential") > 40


def test_a_skill_that_stays_need_not_be_compared_anew() -> None:
    assert likely(Assumed(accepted=0.0)).epochs[2][SLOW_ROLLOUT] == 0
    assert likely(Assumed(accepted=1.0, empty=0.0)).epochs[2][SLOW_ROLLOUT] > 20


def test_a_race_foresees_rollouts_of_what_it_has_chosen() -> None:
    race = {"evaluation": {"race": {"arms": 8, "tasks": 8}}}
    found = likely(Assumed(accepted=1.0, empty=0.0), **race)
    assert 20 < found.steps[1][RACE] < 128
    assert sum(found.steps[n][ROLLOUT] for n in found.steps) < 48
    assert sum(likely(Assumed(accepted=0.0), **race).steps[n][ROLLOUT] for n in range(1, 7)) == 48

"""Rehearse a run with dice: what candidates come to decides how much is called after them.

The counts of one course of events follow from the stages' rules. The mean over many courses is what
is likely. The target's stages are counted in attempts, not in calls.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.estimate import calls as account
from skillopt_ci.estimate.assumed import GAIN, Assumed
from skillopt_ci.estimate.calls import Situation, fitting, merged, minibatch_counts
from skillopt_ci.model.types import Account
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.appendix import notes_from
from skillopt_ci.training.edit_ablation import races
from skillopt_ci.training.plan import (
    EPOCH_STRIDE,
    StepPlan,
    analyst_budget,
    edit_budget,
    lr_control,
)
from skillopt_ci.training.slow_update import sampling_order

_COURSES = 100
_SEED = 20_240_229
#: Minibatches of successes that lead to a patch, choices that the pool is too large for, slow
#: updates that write something, arms of a race that are documents of their own.
_SUCCESS_PATCHES, _TOO_MANY, _GUIDED, _DISTINCT = 0.5, 0.4, 0.7, 0.7
#: Tasks on which attempts come to different scores.
_UNDECIDED = 0.1

Counts = dict[Account, float]


@dataclass(slots=True)
class _Skill:
    """A skill in a course: how many training attempts were ``made`` under it, and at what.

    ``known`` are the tasks that were attempted at all, ``rolled`` those of steps.
    """

    made: int = 0
    known: set[str] = field(default_factory=set)
    rolled: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Course:
    """One course of events, from where the run stands."""

    config: Config
    situation: Situation
    gradient: Gradient
    assumed: Assumed
    dice: random.Random
    solved: float
    skill: _Skill
    last: _Skill

    def step(self, plan: StepPlan) -> Counts:
        """What a step calls."""
        attempts = self.config.rollout.attempts
        tasks = list({task.id: task for batch in plan.batches for task in batch.tasks})
        # a race or a comparison has made the first round of these already
        foreseen = (self.skill.known - self.skill.rolled) & set(tasks)
        found: Counts = {account.ROLLOUT: float((len(tasks) - len(foreseen)) * attempts)}
        if analyst_budget(self.config.optimizer) == 0:
            return found
        sizes = [len(batch.tasks) * attempts for batch in plan.batches]
        recalled = max(0, min(self.config.gradient.evidence - sizes[0], self.skill.made))
        sizes[0] += recalled
        self.skill.made += sum(len(batch.tasks) * attempts for batch in plan.batches)
        self.skill.known |= set(tasks)
        self.skill.rolled |= set(tasks)
        self._reflect(sizes, found)
        if self.dice.random() >= self.assumed.empty:
            self._candidate(plan, tasks, found)
        return found

    def boundary(self, epoch: int, train: Sequence[Task]) -> Counts:
        """What the end of an epoch calls."""
        optimizer = self.config.optimizer
        if epoch == 1 or not (optimizer.use_slow_update or optimizer.use_meta_skill):
            self.last = self.skill
            return {}
        seed = self.config.train.seed + 2 * EPOCH_STRIDE * epoch
        order = sampling_order(train, seed)[: optimizer.slow_update_samples]
        sample = {task.id for task in order}
        sides = [self.skill] if self.last is self.skill else [self.last, self.skill]
        made = sum(len(sample - side.known) for side in sides)
        for side in sides:
            side.known |= sample
        each = self.config.rollout.attempts
        found: Counts = {
            account.SLOW_ROLLOUT: float(made * each),
            account.SLOW_UPDATE: float(optimizer.use_slow_update),
            account.META_SKILL: float(optimizer.use_meta_skill),
        }
        if optimizer.use_slow_update and self.dice.random() < _GUIDED:
            gated = optimizer.slow_update_gate_with_selection
            found[account.SELECTION] = self._judge(gated=gated)
        self.last = self.skill
        return found

    def _reflect(self, sizes: Sequence[int], found: Counts) -> None:
        gradient, failing = self.gradient, 1 - self.solved
        counts = [minibatch_counts(n, round(failing * n), gradient) for n in sizes]
        failures, successes = (sum(side) for side in zip(*counts, strict=True))
        patches = math.ceil(successes * _SUCCESS_PATCHES)
        found[account.ANALYST] = float(failures + successes)
        found[account.MERGE] = float(merged(failures, patches, gradient))

    def _candidate(self, plan: StepPlan, tasks: Sequence[str], found: Counts) -> None:
        optimizer, control = self.config.optimizer, lr_control(self.config.optimizer)
        budget = edit_budget(optimizer, plan.step, self.situation.total_steps)
        raced = races(self.config)
        if control == "autonomous":
            found[account.LEARNING_RATE] = 1.0
        if control == "autonomous" or (control == "fixed" and budget > 0):
            roomy = raced and self.config.evaluation.race.pool > budget
            found[account.RANKING] = 0.0 if roomy else _TOO_MANY
        if optimizer.skill_update_mode == "rewrite_from_suggestions":
            found[account.REWRITE] = 1.0
        tried: set[str] = set()
        if raced:
            race = self.config.evaluation.race
            tried = set(tasks[: race.tasks])
            # few arms leave more in doubt, which another heat has to tell
            arms = _DISTINCT * (race.arms + (race.heats > 1))
            found[account.RACE] = arms * len(tried) * self.config.rollout.attempts
        found[account.SELECTION] = self._judge(gated=self.config.evaluation.use_gate, tried=tried)

    def _judge(self, *, gated: bool, tried: Set[str] = frozenset()) -> float:
        """Attempts of measuring a candidate, which becomes the current skill if it is accepted."""
        evaluation = self.config.evaluation
        gate, each = evaluation.gate, self.config.rollout.attempts
        total = self.situation.selection
        planned = min(gate.subset or total, total) if evaluation.use_gate else total
        # both skills meet the undecided tasks again, in each round that the gate may still call for
        rounds = gate.attempts - 1 if gated and gate.policy == "sequential" else 0
        again = 2 * _UNDECIDED * planned * rounds
        if not gated or self.dice.random() < self.assumed.accepted:
            self.skill = _Skill(known=set(tried))
            self.solved += GAIN * (1 - self.solved)
            # whoever is accepted is measured on all tasks
            return (total + again + total * (gate.remeasure and gated)) * each
        tasks = float(planned)
        if gate.early_stop:
            # those that the current skill fails come first; after them nothing can be gained
            looks = math.ceil(((1 - self.solved) * planned + 1) / gate.look_every)
            tasks = min(planned, looks * gate.look_every)
        notes = planned if notes_from(self.config.optimizer) else 0
        return (tasks + again + notes) * each


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a run has still to do: ``steps`` from now on, and the ``epochs`` whose end is to come.

    ``made`` attempts were made under the current skill so far.
    """

    steps: tuple[StepPlan, ...]
    epochs: tuple[int, ...]
    made: int = 0


@dataclass(frozen=True, slots=True)
class Likely:
    """The likely calls of each step and of each epoch's end, by their numbers."""

    steps: dict[int, Counts]
    epochs: dict[int, Counts]


def rehearse(
    config: Config,
    schedule: Schedule,
    train: Sequence[Task],
    situation: Situation,
    assumed: Assumed,
) -> Likely:
    """The mean of many courses; always the same for the same run."""
    dice, gradient = random.Random(_SEED), fitting(config.gradient, situation.trajectory_chars)
    sums: dict[tuple[str, int], Counter[Account]] = {}
    for _ in range(_COURSES):
        skill = _Skill(made=schedule.made)
        course = _Course(config, situation, gradient, assumed, dice, assumed.solved, skill, skill)
        for work, counts in _work(course, schedule, train):
            sums.setdefault(work, Counter()).update(counts)
    means = {
        work: {key: total / _COURSES for key, total in one.items()} for work, one in sums.items()
    }
    return Likely(
        {number: one for (kind, number), one in means.items() if kind == "step"},
        {number: one for (kind, number), one in means.items() if kind == "epoch"},
    )


def _work(
    course: _Course, schedule: Schedule, train: Sequence[Task]
) -> Iterator[tuple[tuple[str, int], Counts]]:
    for plan in schedule.steps:
        yield ("step", plan.step), course.step(plan)
        if plan.is_last_of_epoch and plan.epoch in schedule.epochs:
            yield ("epoch", plan.epoch), course.boundary(plan.epoch, train)
    done = {plan.epoch for plan in schedule.steps}
    for epoch in schedule.epochs:
        if epoch not in done:
            yield ("epoch", epoch), course.boundary(epoch, train)

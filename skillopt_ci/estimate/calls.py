"""How many calls a step, an epoch's end and the end of a run make: what the stages' rules allow.

The least takes all that may be answered from the cache or skipped as such; the most has every
question of the optimizer asked twice, which is what an unusable reply costs. What is likely between
them is rehearsed (:mod:`~skillopt_ci.estimate.rehearsal`). The target's stages are counted in
attempts at first, and put in calls by :func:`in_calls`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.estimate.spread import Spread
from skillopt_ci.model.types import Account
from skillopt_ci.training.appendix import notes_from
from skillopt_ci.training.edit_ablation import races
from skillopt_ci.training.plan import StepPlan, analyst_budget, edit_budget, lr_control

Calls = Mapping[Account, Spread]

ROLLOUT = Account("target", "rollout")
SELECTION = Account("target", "selection")
RACE = Account("target", "race")
SLOW_ROLLOUT = Account("target", "slow_rollout")
TEST = Account("target", "test")
JUDGE = Account("judge", "judge")
ANALYST = Account("optimizer", "analyst")
MERGE = Account("optimizer", "merge")
RANKING = Account("optimizer", "ranking")
LEARNING_RATE = Account("optimizer", "lr_autonomous")
REWRITE = Account("optimizer", "rewrite")
CONSOLIDATE = Account("optimizer", "appendix_consolidate")
SLOW_UPDATE = Account("optimizer", "slow_update")
META_SKILL = Account("optimizer", "meta_skill")


@dataclass(frozen=True, slots=True)
class Situation:
    """What counts depend on besides the configuration.

    ``calls`` is how many calls of the target an attempt takes (least, likely, most), ``judged`` how
    many questions to the judge. A trajectory is shown with about ``trajectory_chars`` characters.
    """

    train: int
    selection: int
    test: int
    total_steps: int
    judged: int = 0
    calls: tuple[int, float, int] = (1, 1.0, 1)
    trajectory_chars: int = 1


def joined(parts: Iterable[Calls]) -> dict[Account, Spread]:
    """All calls together."""
    calls: dict[Account, Spread] = {}
    for part in parts:
        for account, count in part.items():
            calls[account] = calls.get(account, Spread()) + count
    return {account: count for account, count in sorted(calls.items()) if count.high}


def start_calls(config: Config, situation: Situation) -> Calls:
    """The first measurement of the skill."""
    return {SELECTION: Spread.exactly(situation.selection * config.rollout.attempts)}


def step_calls(config: Config, plan: StepPlan, situation: Situation) -> Calls:
    """One training step. In the first epoch, without races, no attempt was made before."""
    each, race = config.rollout.attempts, config.evaluation.race
    sizes = [len(batch.tasks) * each for batch in plan.batches]
    tasks = len({task.id for batch in plan.batches for task in batch.tasks})
    fresh = plan.epoch == 1 and not races(config)
    raced = race.arms * race.heats * min(race.tasks, tasks) if races(config) else 0
    return {
        ROLLOUT: Spread.exactly(tasks * each) if fresh else Spread.up_to(tasks * each),
        **_optimizer_calls(config, plan, sizes, situation),
        RACE: Spread.up_to(raced * each),
        SELECTION: _selection(config, situation),
    }


def boundary_calls(config: Config, epoch: int, situation: Situation) -> Calls:
    """The end of an epoch; that of the first one asks no model."""
    optimizer, each = config.optimizer, config.rollout.attempts
    if epoch == 1 or not (optimizer.use_slow_update or optimizer.use_meta_skill):
        return {}
    sample = min(optimizer.slow_update_samples, situation.train)
    most = situation.train if optimizer.longitudinal_pair_policy == "changed" else sample
    slow = optimizer.use_slow_update
    return {
        SLOW_ROLLOUT: Spread.up_to(2 * sample * each, 2 * most * each),
        SLOW_UPDATE: Spread(1, 1, 2) if slow else Spread(),
        META_SKILL: Spread(1, 1, 2) if optimizer.use_meta_skill else Spread(),
        SELECTION: _selection(config, situation) if slow else Spread(),
    }


def finish_calls(config: Config, situation: Situation) -> Calls:
    """The final test of the initial, the best and the last skill, which may be the same."""
    if not (situation.test and config.evaluation.eval_test):
        return {}
    count = situation.test * config.rollout.attempts
    return {TEST: Spread(count, 2 * count, 3 * count)}


def in_calls(attempts: Calls, situation: Situation) -> Calls:
    """The same with the target's stages in calls, and what the attempts ask the judge.

    Each question to the judge may be asked twice.
    """
    least, usual, most = situation.calls
    found, asked = {}, Spread()
    for account, count in attempts.items():
        found[account] = count
        if account.role == "target":
            asked += count * situation.judged
            made = round(count.likely * usual)
            found[account] = Spread(count.low * least, made, count.high * most)
    return joined([found, {JUDGE: Spread(0, asked.likely, 2 * asked.high)}])


def likely(bounds: Calls, counts: Mapping[Account, float]) -> Calls:
    """The ``bounds`` with what is likely between them, as ``counts`` say."""
    return {
        account: Spread(bound.low, _between(bound, counts.get(account, 0.0)), bound.high)
        for account, bound in bounds.items()
    }


def _between(bound: Spread, count: float) -> int:
    return min(max(bound.low, round(count)), bound.high)


def fitting(gradient: Gradient, chars: int) -> Gradient:
    """The settings with as many trajectories of ``chars`` characters as fit into a minibatch."""
    shown = max(1, min(chars, gradient.max_trajectory_chars))
    fit = max(1, gradient.max_minibatch_chars // shown)
    return gradient.model_copy(update={"minibatch_size": min(gradient.minibatch_size, fit)})


def merge_calls(patches: int, batch_size: int) -> int:
    """Calls that merge so many patches of one side, ``batch_size`` at a time, level by level."""
    calls = 0
    while patches > 1:
        full, rest = divmod(patches, batch_size)
        calls += full + (rest > 1)
        patches = full + (rest > 0)
    return calls


def minibatch_counts(attempts: int, failed: int, gradient: Gradient) -> tuple[int, int]:
    """Minibatches of failures and of successes."""
    size = gradient.minibatch_size
    solved = 0 if gradient.failure_only else attempts - failed
    return math.ceil(failed / size), math.ceil(solved / size)


def _optimizer_calls(
    config: Config, plan: StepPlan, sizes: list[int], situation: Situation
) -> Calls:
    optimizer, control = config.optimizer, lr_control(config.optimizer)
    if analyst_budget(optimizer) == 0:
        return {}
    narrow = fitting(config.gradient, 2 * situation.trajectory_chars)
    analysts = _analysts(config, sizes, narrow)
    proposals = _merges(config, sizes, narrow)
    budget = edit_budget(optimizer, plan.step, situation.total_steps)
    ranks = control == "autonomous" or (control == "fixed" and budget > 0)
    rewrites = optimizer.skill_update_mode == "rewrite_from_suggestions"
    condenses = notes_from(optimizer) and optimizer.skill_aware_consolidate_threshold
    return {
        ANALYST: analysts,
        MERGE: proposals,
        LEARNING_RATE: Spread.up_to(1, 2) if control == "autonomous" else Spread(),
        RANKING: Spread.up_to(1, 2) if ranks else Spread(),
        REWRITE: Spread.up_to(1, 2) if rewrites else Spread(),
        CONSOLIDATE: Spread(0, 0, 2) if condenses else Spread(),
    }


def _analysts(config: Config, sizes: list[int], narrow: Gradient) -> Spread:
    """Of attempts some may be lost; the first batch may be joined by earlier ones as evidence."""
    low = high = 0
    for number, size in enumerate(sizes):
        least = size - math.floor(config.evaluation.max_error_rate * size)
        most = max(size, config.gradient.evidence) if number == 0 else size
        counts = [minibatch_counts(n, f, config.gradient) for n in (least,) for f in range(n + 1)]
        low += min(map(sum, counts), default=0)
        counts = [minibatch_counts(most, failed, narrow) for failed in range(most + 1)]
        high += 2 * max(map(sum, counts), default=0)
    return Spread(low, low, high)


def _merges(config: Config, sizes: list[int], narrow: Gradient) -> Spread:
    """Patches of all batches are merged together; every analyst may propose nothing."""
    most = [max(sizes[0], config.gradient.evidence), *sizes[1:]]
    # each side never has more minibatches than if all attempts were on it
    alone = sum(math.ceil(n / narrow.minibatch_size) for n in most)
    return Spread.up_to(0, 2 * merged(alone, alone, config.gradient))


def merged(failures: int, successes: int, gradient: Gradient) -> int:
    """Calls that merge so many patches of each side, and both sides in the end."""
    size = gradient.merge_batch_size
    both = bool(failures and successes)
    return merge_calls(failures, size) + merge_calls(successes, size) + both


def _selection(config: Config, situation: Situation) -> Spread:
    """A candidate is measured, unless its text was; rejected edits leave notes to measure."""
    evaluation, count = config.evaluation, situation.selection
    gate = evaluation.gate
    planned = min(gate.subset or count, count) if evaluation.use_gate else count
    rounds = gate.attempts if evaluation.use_gate and gate.policy == "sequential" else 1
    most = count + planned * 2 * (rounds - 1)
    most += count * (gate.remeasure and evaluation.use_gate)
    most += planned * bool(notes_from(config.optimizer))
    return Spread.up_to(planned * config.rollout.attempts, most * config.rollout.attempts)

"""How many calls a step, an epoch's end and the end of a run make: what the stages' rules allow.

The least takes all that may be answered from the cache or skipped as such; the most has every
question of the optimizer asked twice, which is what an unusable reply costs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillopt_ci.estimate.spread import Spread
from skillopt_ci.model.usage import Account
from skillopt_ci.settings.config import Config, Gradient
from skillopt_ci.training.notes import notes_from
from skillopt_ci.training.plan import StepPlan
from skillopt_ci.training.schedule import analyst_budget, edit_budget, lr_control

Calls = Mapping[Account, Spread]

ROLLOUT = Account("target", "rollout")
SELECTION = Account("target", "selection")
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

    ``failing`` is the share of training tasks that the target is expected to fail, ``judged`` how
    many questions to the judge an attempt costs.
    """

    train: int
    selection: int
    test: int
    total_steps: int
    failing: float = 0.5
    judged: int = 0


def joined(parts: Iterable[Calls]) -> dict[Account, Spread]:
    """All calls together."""
    calls: dict[Account, Spread] = {}
    for part in parts:
        for account, count in part.items():
            calls[account] = calls.get(account, Spread()) + count
    return {account: count for account, count in sorted(calls.items()) if count.high}


def start_calls(situation: Situation) -> Calls:
    """The first measurement of the skill."""
    return _judged({SELECTION: Spread.exactly(situation.selection)}, situation)


def step_calls(config: Config, plan: StepPlan, situation: Situation) -> Calls:
    """One training step. In the first epoch no attempt can have been made before."""
    sizes = [len(batch.tasks) for batch in plan.batches]
    tasks = len({task.id for batch in plan.batches for task in batch.tasks})
    calls = {
        ROLLOUT: Spread.exactly(tasks) if plan.epoch == 1 else Spread.up_to(tasks),
        **_optimizer_calls(config, plan, sizes, situation),
        SELECTION: _selection(config, situation),
    }
    return _judged(calls, situation)


def boundary_calls(config: Config, epoch: int, situation: Situation) -> Calls:
    """The end of an epoch; that of the first one asks no model."""
    optimizer = config.optimizer
    if epoch == 1 or not (optimizer.use_slow_update or optimizer.use_meta_skill):
        return {}
    sample = min(optimizer.slow_update_samples, situation.train)
    most = situation.train if optimizer.longitudinal_pair_policy == "changed" else sample
    calls = {
        SLOW_ROLLOUT: Spread.up_to(2 * sample, 2 * most),
        SLOW_UPDATE: Spread(1, 1, 2) if optimizer.use_slow_update else Spread(),
        META_SKILL: Spread(1, 1, 2) if optimizer.use_meta_skill else Spread(),
        SELECTION: Spread.up_to(situation.selection if optimizer.use_slow_update else 0),
    }
    return _judged(calls, situation)


def finish_calls(config: Config, situation: Situation) -> Calls:
    """The final test of the initial, the best and the last skill, which may be the same."""
    if not (situation.test and config.evaluation.eval_test):
        return {}
    count = situation.test
    return _judged({TEST: Spread(count, 2 * count, 3 * count)}, situation)


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
    analysts = _analysts(config, sizes, situation.failing)
    proposals = _merges(config, sizes, situation.failing)
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


def _analysts(config: Config, sizes: list[int], failing: float) -> Spread:
    low = likely = high = 0
    for size in sizes:
        measured = size - math.floor(config.evaluation.max_error_rate * size)
        least = (
            sum(minibatch_counts(attempts, failed, config.gradient))
            for attempts in range(measured, size + 1)
            for failed in range(attempts + 1)
        )
        most = (sum(minibatch_counts(size, failed, config.gradient)) for failed in range(size + 1))
        low += min(least, default=0)
        high += 2 * max(most, default=0)
        likely += sum(minibatch_counts(size, round(failing * size), config.gradient))
    return Spread(low, likely, high)


def _merges(config: Config, sizes: list[int], failing: float) -> Spread:
    """Patches of all batches are merged together; every analyst may propose nothing."""
    counts = [minibatch_counts(n, round(failing * n), config.gradient) for n in sizes]
    likely = _merged(sum(f for f, _ in counts), sum(s for _, s in counts), config.gradient)
    # each side never has more minibatches than if all attempts were on it
    alone = sum(math.ceil(n / config.gradient.minibatch_size) for n in sizes)
    return Spread.up_to(likely, 2 * _merged(alone, alone, config.gradient))


def _merged(failures: int, successes: int, gradient: Gradient) -> int:
    size = gradient.merge_batch_size
    both = bool(failures and successes)
    return merge_calls(failures, size) + merge_calls(successes, size) + both


def _selection(config: Config, situation: Situation) -> Spread:
    """A candidate is measured, unless its text was; rejected edits leave notes to measure."""
    count = situation.selection
    return Spread.up_to(count, 2 * count if notes_from(config.optimizer) else count)


def _judged(calls: Calls, situation: Situation) -> Calls:
    """With the questions to the judge that the attempts cost; each may be asked twice."""
    attempts = joined(
        [{JUDGE: count} for account, count in calls.items() if account[0] == "target"]
    )
    asked = attempts.get(JUDGE, Spread()) * situation.judged
    return {**calls, JUDGE: Spread(0, asked.likely, 2 * asked.high)}

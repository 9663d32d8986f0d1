"""Estimates how many calls a run makes, from the plan of its steps and epochs.

The rules of the stages give minimum and maximum. The likely number depends on assumptions about
candidates: a skill that stays accumulates evidence, a new one starts without any.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.ledger.records import HistoryEntry, StepRecord
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.training.plan import (
    Sizes,
    StepPlan,
    analyst_budget,
    edit_budget,
    lr_control,
    usual_answers,
)
from skillopt_ci.training.update import notes_from
from skillopt_ci.util import grouped

_STAGES = ("rollout", "selection", "slow_rollout", "test", "confirmation")
ATTEMPTS = [Account("target", stage) for stage in _STAGES]
ROLLOUT, SELECTION, SLOW_ROLLOUT, TEST, CONFIRMATION = ATTEMPTS
JUDGE = Account("judge", "judge")
ANALYST = Account("optimizer", "analyst")
MERGE = Account("optimizer", "merge")
RANKING = Account("optimizer", "ranking")
LEARNING_RATE = Account("optimizer", "lr_autonomous")
REWRITE = Account("optimizer", "rewrite")
CONSOLIDATE = Account("optimizer", "appendix_consolidate")
SLOW_UPDATE = Account("optimizer", "slow_update")
META_SKILL = Account("optimizer", "meta_skill")

#: Assumed without history: the shares of candidates that are accepted, and of steps that propose
#: nothing; and how many observations these assumptions weigh.
_ACCEPTED, _EMPTY, _WEIGHT = 0.5, 0.1, 4
#: The share of the gap to a perfect score that an accepted candidate closes.
_GAIN = 0.4
#: The shares of minibatches of successes that lead to a patch, of steps that exceed the edit
#: budget, and of slow updates that write something.
_SUCCESS_PATCHES, _TOO_MANY, _GUIDED = 0.5, 0.4, 0.7


@dataclass(frozen=True, slots=True)
class Range:
    """An uncertain number: ``low`` ≤ ``likely`` ≤ ``high``."""

    low: float = 0
    likely: float = 0
    high: float = 0

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __mul__(self, factor: float) -> "Range":
        return Range(self.low * factor, self.likely * factor, self.high * factor)


Calls = Mapping[Account, Range]


@dataclass(frozen=True, slots=True)
class Assumed:
    """Score of the skill, shares of accepted candidates and empty steps, calls per attempt."""

    solved: float = 0.5
    accepted: float = _ACCEPTED
    empty: float = _EMPTY
    calls: Range = Range(1, 1, 1)


def assumed(
    config: Config,
    solved: float | None,
    history: Iterable[HistoryEntry],
    steps: Sequence[StepRecord],
    answers: float,
) -> Assumed:
    done = [one for one in history if one.kind == "step"]
    judged = [one for one in done if not one.action.startswith("skip")]
    kept = sum(one.action.startswith("accept") for one in judged)
    return Assumed(
        solved=0.5 if solved is None else solved,
        accepted=(kept + _WEIGHT * _ACCEPTED) / (len(judged) + _WEIGHT),
        empty=(len(done) - len(judged) + _WEIGHT * _EMPTY) / (len(done) + _WEIGHT),
        calls=_calls_of_attempt(config, steps, answers),
    )


def _calls_of_attempt(config: Config, steps: Sequence[StepRecord], answers: float) -> Range:
    if not usual_answers(config)[1]:
        return Range() if config.rollout.solver.type in ("scripted", "human") else Range(1, 1, 1)
    most = config.rollout.limits.steps or 200  # a guess
    attempts = sum(len(one.proposal.rollout.tasks) for one in steps)
    used = sum(one.proposal.usage.get("rollout", Usage()).calls for one in steps)
    return between(0, used / attempts if attempts and used else answers, most)


class Forecast:
    """Call its methods in the run's order; ``made`` counts the current skill's attempts so far.

    ``chars`` is the length of a trajectory.
    """

    def __init__(
        self, config: Config, sizes: Sizes, steps: int, assumed: Assumed, chars: int, made: int = 0
    ) -> None:
        self.config, self.sizes, self.assumed = config, sizes, assumed
        self.steps_in_all, self.chars = steps, chars
        self._solved = assumed.solved
        # Expected values for the current skill: training attempts under it, the share of training
        # tasks without any, and the probability that it is still the last epoch end's skill.
        self._made, self._fresh, self._same = float(made), 1.0, 1.0

    def start(self, texts: int = 1, *, anew: bool = False) -> Calls:
        count = texts * self.sizes.selection * self.config.rollout.attempts
        return {SELECTION: Range(0 if anew else count, count, count)}

    def step(self, plan: StepPlan) -> Calls:
        config, each = self.config, self.config.rollout.attempts
        sizes = [len(batch.tasks) * each for batch in plan.batches]
        tasks = len({task.id for batch in plan.batches for task in batch.tasks})
        attempts = sum(sizes)  # a task that a step draws again is attempted again
        # In the first epoch there are no earlier attempts to reuse.
        rollout = Range(attempts if plan.epoch == 1 else 0, attempts, attempts)
        if analyst_budget(config.optimizer) == 0:
            return {ROLLOUT: rollout, SELECTION: self._selection(0.0)}
        reflected = self._reflection(sizes)
        self._made += attempts
        self._fresh = max(0.0, self._fresh - tasks / self.sizes.train)
        return {ROLLOUT: rollout, **reflected, **self._candidate(plan)}

    def epoch_end(self, epoch: int) -> Calls:
        optimizer, each = self.config.optimizer, self.config.rollout.attempts
        slow, meta = optimizer.use_slow_update, optimizer.use_meta_skill
        calls: dict[Account, Range] = {}
        if epoch > 1 and (slow or meta):
            train = self.sizes.train
            sample = min(optimizer.slow_update_samples, train)
            most = train if optimizer.longitudinal_pair_policy == "changed" else sample
            # The last epoch's skill, if replaced, lacks about half as many attempts.
            likely = sample * self._fresh * (1 + (1 - self._same) / 2)
            self._fresh *= 1 - sample / train
            calls = {
                SLOW_ROLLOUT: Range(0, likely * each, 2 * most * each),
                SLOW_UPDATE: Range(1, 1, 2) if slow else Range(),
                META_SKILL: Range(1, 1, 2) if meta else Range(),
            }
            if slow:
                calls[SELECTION] = self._judge(
                    _GUIDED, gated=optimizer.slow_update_gate_with_selection
                )
        self._same = 1.0
        return calls

    def finish(self, *, again: bool = False) -> Calls:
        if not (self.sizes.test and self.config.evaluation.eval_test):
            return {}
        count = self.sizes.test * self.config.rollout.attempts
        # initial, best and last skill may be one; ``again``, the initial one's scores are known
        return {TEST: Range(1 - again, 2 - again, 3 - again) * count}

    def _reflection(self, sizes: Sequence[int]) -> Calls:
        gradient, chars = self.config.gradient, self.chars
        usual, narrow = fitting(gradient, chars), fitting(gradient, 2 * chars)
        lost, (first, *others) = self.config.evaluation.max_error_rate, sizes
        # Some attempts may fail, and earlier attempts may join the first batch.
        least = [size - math.floor(lost * size) for size in sizes]
        low = 0 if gradient.failure_only else _batches(least, gradient.minibatch_size)
        # A side has at most the minibatches of all attempts together.
        full = [max(first, gradient.evidence), *others]
        high = alone = _batches(full, narrow.minibatch_size)
        if not gradient.failure_only:
            # A single failure maximizes the number of partly filled minibatches.
            high = len(full) + _batches([count - 1 for count in full], narrow.minibatch_size)
        shown = [first + round(max(0, min(gradient.evidence - first, self._made))), *others]
        counts = [minibatch_counts(n, round((1 - self._solved) * n), usual) for n in shown]
        failures, successes = (sum(side) for side in zip(*counts, strict=True))
        each = gradient.analysts
        merges = merged(each * failures, math.ceil(each * successes * _SUCCESS_PATCHES), usual)
        return {
            ANALYST: between(each * low, each * (failures + successes), 2 * each * high),
            MERGE: between(0, merges, 2 * merged(each * alone, each * alone, gradient)),
        }

    def _candidate(self, plan: StepPlan) -> Calls:
        optimizer, proposed = self.config.optimizer, 1 - self.assumed.empty
        control = lr_control(optimizer)
        budget = edit_budget(optimizer, plan.step, self.steps_in_all, plan.extra)
        calls: dict[Account, Range] = {}
        if control == "autonomous":
            calls[LEARNING_RATE] = Range(0, proposed, 2)
        if control == "autonomous" or budget:
            merged = self.config.gradient.analysts > 1  # which orders the edits
            calls[RANKING] = Range(0, 0 if merged else proposed * _TOO_MANY, 2)
        if optimizer.skill_update_mode == "rewrite_from_suggestions":
            calls[REWRITE] = Range(0, proposed, 2)
        if notes_from(optimizer) and optimizer.skill_aware_consolidate_threshold:
            calls[CONSOLIDATE] = Range(0, 0, 2)
        calls[SELECTION] = self._judge(proposed, gated=self.config.evaluation.use_gate)
        return calls

    def _judge(self, proposed: float, *, gated: bool) -> Range:
        gate = self.config.evaluation.gate
        planned = tasks = self.sizes.selection
        if gate.early_stop:
            # Tasks that the current skill fails come first; the rest cannot improve the score.
            looks = math.ceil(((1 - self._solved) * planned + 1) / gate.look_every)
            tasks = min(planned, looks * gate.look_every)
        rejected = tasks + planned * bool(notes_from(self.config.optimizer))
        share = self.assumed.accepted if gated else 1.0
        changed = proposed * share
        self._solved += changed * _GAIN * (1 - self._solved)
        self._made *= 1 - changed
        self._fresh += changed * (1 - self._fresh)
        self._same *= 1 - changed
        # An accepted candidate is measured on all tasks.
        judged = share * planned + (1 - share) * rejected
        return self._selection(proposed * judged * self.config.rollout.attempts)

    def _selection(self, attempts: float) -> Range:
        most = self.sizes.selection * (1 + bool(notes_from(self.config.optimizer)))
        return between(0, attempts, most * self.config.rollout.attempts)


def between(low: int, likely: float, high: int) -> Range:
    return Range(low, min(max(low, likely), high), high)


def _batches(sizes: Iterable[int], batch: int) -> int:
    return sum(math.ceil(size / batch) for size in sizes)


def joined(parts: Iterable[Calls]) -> dict[Account, Range]:
    found = grouped(pair for part in parts for pair in part.items())
    calls = {account: sum(counts, Range()) for account, counts in sorted(found.items())}
    return {account: count for account, count in calls.items() if count.high}


def in_calls(attempts: Calls, calls: Range, judged: int = 0) -> Calls:
    """Convert attempts to calls; each of an attempt's ``judged`` questions may be asked twice."""
    found, asked = {}, Range()
    for account, count in attempts.items():
        if account.role == "target":
            asked += Range(0, round(count.likely), count.high) * judged
            made = round(round(count.likely) * calls.likely)
            found[account] = Range(count.low * calls.low, made, count.high * calls.high)
        else:
            found[account] = Range(count.low, round(count.likely), count.high)
    return joined([found, {JUDGE: Range(0, asked.likely, 2 * asked.high)}])


def fitting(gradient: Gradient, chars: int) -> Gradient:
    """The settings, with as many trajectories of ``chars`` characters as fit in a minibatch."""
    fit = max(1, gradient.max_minibatch_chars // max(1, min(chars, gradient.max_trajectory_chars)))
    return gradient.model_copy(update={"minibatch_size": min(gradient.minibatch_size, fit)})


def minibatch_counts(attempts: int, failed: int, gradient: Gradient) -> tuple[int, int]:
    size = gradient.minibatch_size
    solved = 0 if gradient.failure_only else attempts - failed
    return math.ceil(failed / size), math.ceil(solved / size)


def merged(failures: int, successes: int, gradient: Gradient) -> int:
    size = gradient.merge_batch_size
    return merge_calls(failures, size) + merge_calls(successes, size) + bool(failures and successes)


def merge_calls(patches: int, batch_size: int) -> int:
    """Calls to merge the patches of one side, ``batch_size`` at a time, level by level."""
    calls = 0
    while patches > 1:
        full, rest = divmod(patches, batch_size)
        calls += full + (rest > 1)
        patches = full + (rest > 0)
    return calls

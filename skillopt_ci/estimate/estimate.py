"""The estimate of a run: what is left of it, an epoch, a step, stage by stage."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.config.rollout import ChatConfig, HumanConfig, ScriptedConfig
from skillopt_ci.config.scorers import AllScorer, AnyScorer, RubricScorer, WeightedScorer
from skillopt_ci.ledger.records import HistoryEntry, StepRecord, accounts_of
from skillopt_ci.model.prices import Tariff, tariffs
from skillopt_ci.model.types import Account, Accounts, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.appendix import notes_from
from skillopt_ci.training.edit_ablation import races
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.modes import update_mode
from skillopt_ci.training.plan import (
    EPOCH_STRIDE,
    StepPlan,
    analyst_budget,
    edit_budget,
    lr_control,
    plan_step,
    total_steps,
)
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.slow_update import sampling_order
from skillopt_ci.training.state import Standing

# What an estimate takes for granted: from the run's own history, else by rule of thumb.

#: Before there is any history: the share of candidates that is accepted where any gain is enough
#: and where chance must not explain it, and of steps that propose nothing.
_ACCEPTED, _CONVINCING, _EMPTY = 0.5, 0.35, 0.1
#: How many observations these are worth.
_WEIGHT = 4
#: An accepted candidate closes this share of the gap to a perfect score.
GAIN = 0.4
#: Answers of an agent on a task, as long as none was seen; and the most where nothing limits them.
_AGENT_STEPS, _UNLIMITED_STEPS = 10, 200


@dataclass(frozen=True, slots=True)
class Assumed:
    """``solved`` is the score that the current skill starts from.

    Of the steps the share ``empty`` proposes nothing, and of the candidates the share ``accepted``
    is kept. ``calls`` is how many calls of the target an attempt takes: at least, likely, at most.
    """

    solved: float = 0.5
    accepted: float = _ACCEPTED
    empty: float = _EMPTY
    calls: tuple[int, float, int] = (1, 1.0, 1)


def assumed(
    config: Config,
    solved: float | None,
    history: Iterable[HistoryEntry],
    steps: Sequence[StepRecord],
) -> Assumed:
    """What to assume after ``history``, of which ``steps`` are the latest records."""
    done = [one for one in history if one.kind == "step"]
    judged = [one for one in done if not one.action.startswith("skip")]
    strict = config.evaluation.gate.policy == "strict"
    kept = sum(one.action.startswith("accept") for one in judged)
    return Assumed(
        solved=0.5 if solved is None else solved,
        accepted=_share(kept, len(judged), _ACCEPTED if strict else _CONVINCING),
        empty=_share(len(done) - len(judged), len(done), _EMPTY),
        calls=_calls(config, steps),
    )


def _share(seen: int, of: int, before: float) -> float:
    return (seen + _WEIGHT * before) / (of + _WEIGHT)


def _calls(config: Config, steps: Sequence[StepRecord]) -> tuple[int, float, int]:
    """Calls of the target that an attempt takes; some environments have agents of their own."""
    solver, most = config.rollout.solver, config.rollout.limits.steps or _UNLIMITED_STEPS
    if isinstance(solver, ChatConfig) and config.environment is None:
        return 1, 1.0, 1
    if isinstance(solver, ScriptedConfig | HumanConfig):
        return 0, 0.0, 0
    attempts = sum(len(one.proposal.rollout.tasks) for one in steps)
    used = sum(one.proposal.usage["rollout"].calls for one in steps if _tells(one))
    if attempts and used:
        return 0, used / attempts, most
    return 0, 1.0 if isinstance(solver, ChatConfig) else float(min(_AGENT_STEPS, most)), most


def _tells(step: StepRecord) -> bool:
    return "rollout" in step.proposal.usage


# A number that is not known yet: the least and the most that it can be, and what is likely.


@dataclass(frozen=True, slots=True)
class Spread:
    """``low`` ≤ ``likely`` ≤ ``high``."""

    low: int = 0
    likely: int = 0
    high: int = 0

    @classmethod
    def exactly(cls, count: int) -> "Spread":
        """A number that is known."""
        return cls(count, count, count)

    @classmethod
    def up_to(cls, likely: int, high: int | None = None) -> "Spread":
        """Perhaps nothing, likely ``likely``, at most ``high`` (by default no more than that)."""
        return cls(0, likely, likely if high is None else high)

    def __add__(self, other: "Spread") -> "Spread":
        return Spread(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __mul__(self, factor: int) -> "Spread":
        return Spread(self.low * factor, self.likely * factor, self.high * factor)


# How many calls a step, an epoch's end and the end of a run make: what the stages' rules allow.

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


# Rehearse a run with dice: what candidates come to decides how much is called after them.

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
        found: Counts = {ROLLOUT: float((len(tasks) - len(foreseen)) * attempts)}
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
            SLOW_ROLLOUT: float(made * each),
            SLOW_UPDATE: float(optimizer.use_slow_update),
            META_SKILL: float(optimizer.use_meta_skill),
        }
        if optimizer.use_slow_update and self.dice.random() < _GUIDED:
            gated = optimizer.slow_update_gate_with_selection
            found[SELECTION] = self._judge(gated=gated)
        self.last = self.skill
        return found

    def _reflect(self, sizes: Sequence[int], found: Counts) -> None:
        gradient, failing = self.gradient, 1 - self.solved
        counts = [minibatch_counts(n, round(failing * n), gradient) for n in sizes]
        failures, successes = (sum(side) for side in zip(*counts, strict=True))
        patches = math.ceil(successes * _SUCCESS_PATCHES)
        found[ANALYST] = float(failures + successes)
        found[MERGE] = float(merged(failures, patches, gradient))

    def _candidate(self, plan: StepPlan, tasks: Sequence[str], found: Counts) -> None:
        optimizer, control = self.config.optimizer, lr_control(self.config.optimizer)
        budget = edit_budget(optimizer, plan.step, self.situation.total_steps)
        raced = races(self.config)
        if control == "autonomous":
            found[LEARNING_RATE] = 1.0
        if control == "autonomous" or (control == "fixed" and budget > 0):
            roomy = raced and self.config.evaluation.race.pool > budget
            found[RANKING] = 0.0 if roomy else _TOO_MANY
        if optimizer.skill_update_mode == "rewrite_from_suggestions":
            found[REWRITE] = 1.0
        tried: set[str] = set()
        if raced:
            race = self.config.evaluation.race
            tried = set(tasks[: race.tasks])
            # few arms leave more in doubt, which another heat has to tell
            arms = _DISTINCT * (race.arms + (race.heats > 1))
            found[RACE] = arms * len(tried) * self.config.rollout.attempts
        found[SELECTION] = self._judge(gated=self.config.evaluation.use_gate, tried=tried)

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


# How large calls are: as this run's own were, else by the texts that they will be made of.

#: English text; code and other languages have fewer characters a token.
CHARACTERS_PER_TOKEN = 4
#: What is assumed of answers before there are any, in tokens.
ANSWER = 300
PROPOSAL = 800
CHOICE = 250
GUIDANCE = 600
VERDICT = 80
#: A rubric's frame around task and answer.
_RUBRIC = 350


@dataclass(frozen=True, slots=True)
class CallSize:
    """The mean call of a stage; ``measured`` says that this run made such calls before."""

    usage: Usage
    measured: bool = False


def measured_sizes(accounts: Accounts) -> dict[Account, CallSize]:
    """The means of what was consumed so far; the parts of the final test as one."""
    joined: dict[Account, Usage] = {}
    for account, usage in accounts.items():
        known = Account(account.role, account.stage.partition(" ")[0])
        joined[known] = joined.get(known, Usage()) + usage
    return {
        account: CallSize(_mean(usage), measured=True)
        for account, usage in joined.items()
        if usage.calls
    }


def sizes_by_texts(
    config: Config, prompts: Prompts, skill: str, tasks: Sequence[Task]
) -> Mapping[Account, CallSize]:
    """Sizes counted from prompts, skill and tasks, with answers of the assumed lengths."""
    document, suffix = tokens(skill), update_mode(config.optimizer).prompt_suffix
    task = _mean_of(_task_tokens(one) for one in tasks)
    attempt = tokens(prompts.target(skill)) + task
    shown = min(task + ANSWER, config.gradient.max_trajectory_chars // CHARACTERS_PER_TOKEN)
    whole = suffix == "_full_rewrite"
    proposal = document + GUIDANCE if whole else PROPOSAL
    ours = {name: tokens(text) for name, text in prompts.texts.items()}
    pool = proposal * 2
    optimizer = {
        ANALYST: (
            ours[f"analyst_error{suffix}"] + document + _minibatch(config, task) * shown,
            proposal,
        ),
        MERGE: (
            ours[f"merge_failure{suffix}"]
            + document
            + min(4, config.gradient.merge_batch_size) * proposal,
            proposal,
        ),
        RANKING: (ours.get(f"ranking{suffix}", ours["ranking"]) + document + pool, CHOICE),
        LEARNING_RATE: (ours["lr_autonomous"] + document + pool, CHOICE),
        REWRITE: (ours["rewrite"] + document + pool, document + GUIDANCE),
        CONSOLIDATE: (ours["appendix_consolidate"] + document, CHOICE),
        SLOW_UPDATE: (ours["slow_update"] + _comparison(config, document, shown), GUIDANCE),
        META_SKILL: (ours["meta_skill"] + _comparison(config, document, shown), GUIDANCE),
    }
    attempts = (ROLLOUT, SELECTION, RACE, SLOW_ROLLOUT, TEST)
    found = {**optimizer, **dict.fromkeys(attempts, (attempt, ANSWER))}
    found[JUDGE] = (_RUBRIC + task + ANSWER, VERDICT)
    return {account: CallSize(Usage(1, *size)) for account, size in found.items()}


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _minibatch(config: Config, task: int) -> int:
    """Trajectories that an analyst reads, as long as nothing else is known: half of the most."""
    own = config.train.batch_size * config.rollout.attempts
    there = max(own, config.gradient.evidence)
    fit = fitting(config.gradient, (task + ANSWER) * CHARACTERS_PER_TOKEN).minibatch_size
    return max(1, min(fit, there // 2))


def _comparison(config: Config, document: int, shown: int) -> int:
    """Both epochs' skills and the sampled tasks under each."""
    return 2 * document + 2 * config.optimizer.slow_update_samples * shown


def _task_tokens(task: Task) -> int:
    said = sum(tokens(message.content) for message in task.messages)
    return said + sum(tokens(file.content) for file in task.files)


def _mean(usage: Usage) -> Usage:
    n = usage.calls
    return Usage(
        calls=1,
        prompt_tokens=round(usage.prompt_tokens / n),
        completion_tokens=round(usage.completion_tokens / n),
        cached_tokens=round(usage.cached_tokens / n),
        reasoning_tokens=round(usage.reasoning_tokens / n),
        cost_usd=None if usage.cost_usd is None else usage.cost_usd / n,
        cache_write_tokens=round(usage.cache_write_tokens / n),
    )


def _mean_of(numbers: Iterable[int]) -> int:
    found = list(numbers)
    return round(sum(found) / len(found)) if found else 0


#: A stretch of work: what its rules allow, and what is likely.
Work = tuple[Calls, Mapping[Account, float]]


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The calls of one role in one stage; ``cost_usd`` is for a call, None if unknown."""

    account: Account
    calls: Spread
    size: CallSize
    cost_usd: float | None

    def tokens(self) -> Spread:
        """Prompt and completion tokens of all calls."""
        return self.calls * self.size.usage.tokens


@dataclass(frozen=True, slots=True)
class Part:
    """An estimate for a stretch of work, with a ``name`` for people."""

    name: str
    stages: tuple[StageEstimate, ...]

    def calls(self) -> Spread:
        """All calls."""
        return sum((one.calls for one in self.stages), Spread())

    def tokens(self) -> Spread:
        """All tokens."""
        return sum((one.tokens() for one in self.stages), Spread())

    def cost_usd(self) -> tuple[float, float, float] | None:
        """Least, likely and most dollars; None as soon as one price is unknown."""
        low = likely = high = 0.0
        for one in self.stages:
            if one.cost_usd is None:
                return None
            low += one.calls.low * one.cost_usd
            likely += one.calls.likely * one.cost_usd
            high += one.calls.high * one.cost_usd
        return low, likely, high


@dataclass(frozen=True, slots=True)
class Estimate:
    """The next ``step``, a whole ``epoch``, and the ``rest`` of the run with its end.

    ``assumptions`` are sentences on what is not known yet.
    """

    step: Part
    epoch: Part
    rest: Part
    tariffs: Mapping[str, Tariff]
    assumptions: tuple[str, ...]


def estimate(session: Session, standing: Standing) -> Estimate:
    """Estimate what the run has still to do from ``standing``; no model is asked."""
    sized = _Sizes.of(session, standing)
    supposed = _assumed(session, standing)
    situation = _situation(session, supposed, sized)
    foreseen = _Foreseen.of(session, standing, situation, supposed)
    epoch, first = foreseen.epoch, foreseen.first
    begin = [] if standing.state else [_sure(start_calls(session.config, situation))]
    next_step = [*begin, foreseen.step(first)] if first in foreseen.plans else []
    of_epoch = [foreseen.step(n) for n, plan in foreseen.plans.items() if plan.epoch == epoch]
    steps = [foreseen.step(n) for n in foreseen.plans if n >= first]
    ends = [foreseen.boundary(number) for number in foreseen.epochs]
    rest = [*begin, *steps, *ends, _sure(finish_calls(session.config, situation))]
    return Estimate(
        sized.part("next step", next_step, situation),
        sized.part(f"epoch {epoch}", [*of_epoch, foreseen.boundary(epoch)], situation),
        sized.part("rest of the run", rest, situation),
        sized.tariffs,
        sized.assumptions(supposed),
    )


def _sure(calls: Calls) -> Work:
    return calls, {account: count.likely for account, count in calls.items()}


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """All steps and epochs of the run: what their rules allow, and what is likely."""

    config: Config
    situation: Situation
    plans: Mapping[int, StepPlan]
    epochs: tuple[int, ...]
    first: int
    epoch: int
    likely: Likely

    @classmethod
    def of(
        cls, session: Session, standing: Standing, situation: Situation, supposed: Assumed
    ) -> "_Foreseen":
        config, train = session.config, session.splits.train
        numbers = range(1, situation.total_steps + 1)
        plans = {n: plan_step(train, config.train, n, session.first_seed) for n in numbers}
        state = standing.state
        first = 1 if state is None else state.step + 1
        done = 0 if state is None else state.boundary
        epochs = tuple(range(done + 1, config.train.num_epochs + 1))
        made = 0 if state is None else len(attempts_so_far(session, standing))
        schedule = Schedule(tuple(plans[n] for n in numbers if n >= first), epochs, made)
        per_epoch = situation.total_steps // config.train.num_epochs
        return cls(
            config,
            situation,
            plans,
            epochs,
            first,
            min(config.train.num_epochs, (first - 1) // per_epoch + 1),
            rehearse(config, schedule, train, situation, supposed),
        )

    def step(self, number: int) -> Work:
        """A step; one that is done is taken to be as the next one."""
        bounds = step_calls(self.config, self.plans[number], self.situation)
        steps = self.likely.steps
        return bounds, steps.get(number) or steps.get(self.first) or {}

    def boundary(self, number: int) -> Work:
        """The end of an epoch."""
        bounds = boundary_calls(self.config, number, self.situation)
        return bounds, self.likely.epochs.get(number, {})


@dataclass(frozen=True, slots=True)
class _Sizes:
    measured: Mapping[Account, CallSize]
    by_texts: Mapping[Account, CallSize]
    tariffs: Mapping[str, Tariff]

    @classmethod
    def of(cls, session: Session, standing: Standing) -> "_Sizes":
        known = () if standing.state is None else standing.state.accounts
        tasks = (*session.splits.train, *session.selection)
        return cls(
            measured_sizes(accounts_of(known)),
            sizes_by_texts(session.config, session.prompts, standing.skill, tasks),
            tariffs(session.config.model),
        )

    def part(self, name: str, works: Sequence[Work], situation: Situation) -> Part:
        counts = Counter[Account]()
        for _, one in works:
            counts.update(one)
        bounds = joined(bounds for bounds, _ in works)
        calls = in_calls(likely(bounds, counts), situation)
        return Part(name, tuple(self._stage(*one) for one in calls.items()))

    def trajectory_chars(self) -> int:
        """About how long an attempt is in an analyst's prompt."""
        usage = self.measured.get(ROLLOUT, self.by_texts[ROLLOUT]).usage
        return usage.tokens * CHARACTERS_PER_TOKEN

    def _stage(self, account: Account, count: Spread) -> StageEstimate:
        size = self.measured.get(account, self.by_texts[account])
        cost = self.tariffs[account.role].cost_usd(_unpriced(size.usage))
        if cost is None and size.measured:
            cost = size.usage.cost_usd
        return StageEstimate(account, count, size, cost)

    def assumptions(self, supposed: Assumed) -> tuple[str, ...]:
        told = [
            "What is in the cache is not paid for again; the most has every question asked twice.",
            f"The target solves {supposed.solved:.0%} of the tasks, more with each step.",
            f"The gate accepts {supposed.accepted:.0%} of the candidates.",
        ]
        if supposed.calls[2] > 1:
            told.append(
                f"An attempt takes {supposed.calls[1]:.1f} answers of the target, at most "
                f"{supposed.calls[2]}."
            )
        if not self.measured:
            told.append(
                f"No call of this run is known yet: a token has {CHARACTERS_PER_TOKEN} characters, "
                f"an answer {ANSWER} tokens, a proposal {PROPOSAL}. Models that reason write more."
            )
        unknown = [name for name, tariff in self.tariffs.items() if not tariff.known]
        if unknown:
            told.append(f"No price is known for: {', '.join(unknown)}; set model.<role>.price.")
        return tuple(told)


def _assumed(session: Session, standing: Standing) -> Assumed:
    state = standing.state
    if state is None:
        return assumed(session.config, None, (), ())
    solved = state.current.measurement.hard
    return assumed(session.config, solved, standing.history, all_steps(session, standing))


def _situation(session: Session, supposed: Assumed, sized: _Sizes) -> Situation:
    train = session.splits.train
    return Situation(
        train=len(train),
        selection=len(session.selection),
        test=len(session.test),
        total_steps=total_steps(len(train), session.config.train),
        judged=_questions(session.config, session),
        calls=supposed.calls,
        trajectory_chars=sized.trajectory_chars(),
    )


def _questions(config: Config, session: Session) -> int:
    """Questions to the judge for an attempt: as many as the most judged task has."""
    tasks = (*session.splits.train, *session.selection)
    specs = (task.scorer or config.scorer for task in tasks)
    return max((_rubrics(spec) for spec in specs), default=0)


def _rubrics(spec: object) -> int:
    match spec:
        case RubricScorer():
            return 1
        case AllScorer() | AnyScorer() | WeightedScorer():
            return sum(map(_rubrics, spec.of))
        case _:
            return 0


def _unpriced(usage: Usage) -> Usage:
    return Usage(
        calls=1,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )

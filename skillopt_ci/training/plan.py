"""Plan: choose a step's training tasks as a pure function of the step's number.

Each epoch goes through all tasks once, in its own order. Steps count from 1, across epochs.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeVar

from skillopt_ci.config.base import Section
from skillopt_ci.config.config import Config, Optimizer, Train
from skillopt_ci.config.reference import leaves
from skillopt_ci.config.scorers import RubricScorer, parts_of
from skillopt_ci.errors import ConfigError
from skillopt_ci.ledger.records import HistoryEntry, State
from skillopt_ci.model.types import Role, Usage, total
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.training.gate import no_score_is_higher
from skillopt_ci.training.review_comments import unheard
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Checkout, ScoredCheckout
from skillopt_ci.training.update import notes_from
from skillopt_ci.util import grouped

Drawn = TypeVar("Drawn")
Part = TypeVar("Part", bound=Section)

#: A step rarely asks the optimizer more questions than this.
_MOST_QUESTIONS = 8
#: An agent's answers to a task, assumed until the first score has shown them.
_AGENT_ANSWERS = 10
#: Distance between the seeds of two epochs.
EPOCH_STRIDE = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    seed: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step's place in the run, ``extra`` as in `extra_steps`, and its accumulated batches."""

    step: int
    epoch: int
    step_in_epoch: int
    is_last_of_epoch: bool
    batches: tuple[Batch, ...]
    extra: int


def steps_per_epoch(n_train: int, train: Train) -> int:
    return math.ceil(n_train / (train.batch_size * train.accumulation))


def extra_steps(n_train: int, train: Train, state: State | None) -> int:
    """Steps done beyond those that this part of the epochs takes with today's batches and tasks.

    If batches changed, an epoch goes on where it was, or a part of a batch before, and misses none.
    If the tasks changed, their order is new, and as large a share of it is left as before.
    """
    if state is None or (basis := state.basis) is None:
        return 0
    epochs, steps = divmod(state.step - state.extra_steps, basis.steps_per_epoch)
    tasks = steps * basis.step_size * n_train // basis.train_size
    steps = tasks // (train.batch_size * train.accumulation)
    return state.step - epochs * steps_per_epoch(n_train, train) - steps


def total_steps(n_train: int, train: Train, state: State | None = None) -> int:
    """Number of the run's last step; ConfigError if ``train.train_size`` is wrong."""
    if train.train_size not in (0, n_train):
        raise ConfigError(
            f"train.train_size is {train.train_size}, but there are {n_train} training tasks.",
            hint="Leave it out, or set it to 0, to use all of them.",
        )
    return train.num_epochs * steps_per_epoch(n_train, train) + extra_steps(n_train, train, state)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of tasks, and of those in a ``look`` (0: any); ``calls`` for one, as far as known."""

    train: int
    selection: int
    test: int
    calls: float = 1
    look: int = 0
    answers: float = 1  # of the target in an attempt


def sizes_of(config: Config, splits: Splits, history: Sequence[HistoryEntry] = ()) -> Sizes:
    attempts, questions = config.rollout.attempts, judged(config, splits.all)
    usual, varies = usual_answers(config)
    # the first score is charged for abandoned work, too
    first = [one.usage.calls / one.tasks for one in history[:1] if one.tasks and varies]
    answers = max(1, first[0] / attempts - questions) if any(first) else usual
    # without it (its answers were stored), the steps made tell what a step takes
    told = not any(first) and any(one.kind == "step" for one in history)
    return Sizes(
        train=len(splits.train),
        selection=len(splits.selection[: config.evaluation.sel_env_num or None]),
        test=len(splits.test[: config.evaluation.test_env_num or None]),
        calls=attempts * ((1 if told else answers) + questions),
        look=config.evaluation.gate.look_every,
        answers=answers,
    )


def usual_answers(config: Config) -> tuple[int, bool]:
    """How often an attempt asks the target, and whether that varies, and so is only assumed."""
    solver, steps = config.rollout.solver, config.rollout.limits.steps
    # of an external agent's mere text nobody sees how many answers it took
    if solver.type == "agent" or (solver.type == "external" and solver.format != "text"):
        return min(_AGENT_ANSWERS, steps or _AGENT_ANSWERS), True
    return 1, config.environment is not None


def judged(config: Config, tasks: Iterable[Task]) -> int:
    """The most questions to the judge for an attempt at one of ``tasks``."""
    questions = (
        sum(isinstance(part, RubricScorer) for part in parts_of(task.scorer or config.scorer))
        for task in tasks
    )
    return max(questions, default=0)


def all_solved(config: Config, sizes: Sizes, state: State | None) -> bool:
    """Whether no step or epoch's end can raise the score, if it is on as many tasks as now.

    Before the first step, that is so even if the guidance of epochs' ends needs no gate.
    """
    return (
        state is not None
        and no_score_is_higher(config, state.current)
        and len(state.current.measurement.asked) == sizes.selection
        and (state.step == 0 or _gated(config))
    )


def _gated(config: Config) -> bool:
    optimizer = config.optimizer
    return (
        config.evaluation.use_gate
        and (optimizer.slow_update_gate_with_selection or not optimizer.use_slow_update)
        and not notes_from(optimizer)  # which stay if they do no harm
    )


def last_step(
    config: Config,
    sizes: Sizes,
    state: State | None,
    history: Sequence[HistoryEntry],
    *,
    reopened: bool = False,
) -> int:
    """Number of the run's last step: the end of its epochs, or earlier.

    A run ends once every selection task is solved, unless it is ``reopened``: reviewers ask for
    something, or the skill was edited and is not scored yet. It also ends when the budget, less
    what the final tests need, cannot cover the largest step. Confirmation uses what is then left.
    """
    last = total_steps(sizes.train, config.train, state)
    done = 0 if state is None else state.step
    if all_solved(config, sizes, state) and not reopened:
        return min(last, done)
    left = calls_left(config, sizes, state)
    made = [one.usage.calls for one in history if one.kind == "step"]
    if done and left < max([most_calls(config, sizes), *made]):
        return min(last, done)
    unseen = sizes.selection / 2  # many comparisons end early, after a look
    unseen -= (unseen % sizes.look) if sizes.look else 0
    spared = sizes.calls * unseen + _MOST_QUESTIONS / 2
    step_calls = sum(made) / len(made) if made else most_calls(config, sizes) - spared
    per_epoch, epochs = steps_per_epoch(sizes.train, config.train), config.train.num_epochs
    ended = 1 if state is None else max(1, state.boundary)
    end_calls = max(0, _most_end_calls(config, sizes) - spared)
    left -= sizes.calls * sizes.selection if state is None else 0  # the first score is still due
    for step in range(done, last):
        left -= step_calls
        # the end of the previous epoch, except the first, which makes no calls
        if (last - step) % per_epoch == 0 and epochs - (last - step) // per_epoch > ended:
            left -= end_calls
        if left < 0:
            return max(step, done + 1)
    return last


def why_over(config: Config, sizes: Sizes, state: State | None) -> str:
    if all_solved(config, sizes, state):
        return "every selection task is solved, so no change can score higher"
    if state is not None and (due := completed_epoch(config, sizes, state)) is not None:
        return f"the end of epoch {due} waits for `slow-update`"
    if state is not None and state.step < total_steps(sizes.train, config.train, state):
        return "the budget has room for no further step"
    left = calls_left(config, replace(sizes, test=0), state)  # tests may be made already
    more = f" (about {left:,.0f} calls of the budget are left)" if 1 <= left < math.inf else ""
    return f"all epochs are trained{more}"


def most_calls(config: Config, sizes: Sizes) -> float:
    """The most calls of a step, which rarely asks the optimizer more questions than supposed."""
    drawn = config.train.accumulation * min(config.train.batch_size, sizes.train)
    evaluated = sizes.selection * (1 + bool(notes_from(config.optimizer)))  # reminders alone, too
    return sizes.calls * (drawn + evaluated) + _MOST_QUESTIONS


def calls_left(
    config: Config, sizes: Sizes, state: State | None, *, attempts: bool = False
) -> float:
    """Calls left, at the mean price of all calls so far, or of ``attempts`` alone."""
    spent, booked = (Usage(), {}) if state is None else (state.usage, state.accounts)
    # attempts never ask the optimizer, whose calls cost more
    others = total(used for account, used in booked.items() if account.role != Role.OPTIMIZER)
    tests, left = final_test_calls(config, sizes, state), math.inf
    for name in ("calls", "tokens", "cost_usd"):
        limit, used = getattr(config.budget.run, name), getattr(spent, name) or 0
        if limit is None or (name != "calls" and not used):
            continue
        mean = used / max(1, spent.calls) if used else 1.0
        attempt = min(mean, (getattr(others, name) or 0) / others.calls) if others.calls else mean
        # the first score lowers the mean, so steps may take that much more than they are planned at
        kept = tests * attempt + min(tests, sizes.calls * sizes.selection) * (mean - attempt)
        kept = kept if kept < limit else 0  # else the tests would take it all
        price = attempt if attempts else mean
        if price or used >= limit:  # a target that costs nothing leaves no limit
            left = min(left, (limit - used - kept) / (price or mean))
    return left


def final_test_calls(config: Config, sizes: Sizes, state: State | None = None) -> float:
    """The calls that testing the first, the best and the last skill takes.

    The last is the best one unless a gate is open or a change stayed without a higher score.
    """
    apart = state and state.current.measurement != state.best.measurement
    skills = 3 if apart or not _gated(config) else 2
    return skills * sizes.test * sizes.calls if config.evaluation.eval_test else 0


def _most_end_calls(config: Config, sizes: Sizes) -> float:
    optimizer = config.optimizer
    if not (optimizer.use_slow_update or optimizer.use_meta_skill):
        return 0
    compared = 2 * min(optimizer.slow_update_samples, sizes.train)
    evaluated = sizes.selection if optimizer.use_slow_update else 0  # a meta skill changes no skill
    return sizes.calls * (compared + evaluated) + _MOST_QUESTIONS


def plan_step(
    tasks: Sequence[Task], train: Train, step: int, state: State | None = None
) -> StepPlan:
    """Plan step number ``step``, from 1, over the training ``tasks``.

    The epoch's order is a shuffle with ``seed + epoch * 1000``. Batch k (from 0) takes the k-th
    slice and has the seed ``seed + epoch * 1000 + k + 1``. If no tasks are left (few tasks, much
    accumulation), the batch is drawn from that order with its own seed.
    """
    per_epoch, extra = steps_per_epoch(len(tasks), train), extra_steps(len(tasks), train, state)
    epoch, position = divmod(step - 1 - extra, per_epoch)
    seed, size = train.seed + (epoch + 1) * EPOCH_STRIDE, train.batch_size
    order = _order(len(tasks), seed)
    batches = []
    for k in range(position * train.accumulation, (position + 1) * train.accumulation):
        drawn = order[k * size : (k + 1) * size] or shuffled(order, seed + k + 1)[:size]
        batches.append(Batch(seed + k + 1, tuple(tasks[place] for place in drawn)))
    return StepPlan(
        step=step,
        epoch=epoch + 1,
        step_in_epoch=position + 1,
        is_last_of_epoch=position + 1 == per_epoch,
        batches=tuple(batches),
        extra=extra,
    )


# an estimate plans each step of an epoch
@lru_cache(maxsize=2)
def _order(count: int, seed: int) -> Sequence[int]:
    return shuffled(range(count), seed)


def shuffled(items: Sequence[Drawn], seed: int) -> list[Drawn]:
    order = list(items)
    random.Random(seed).shuffle(order)
    return order


# Unset options are filled in from the run in progress or from the budget.

#: Settings whose default changed or that a budget decides: a run keeps the values it began with.
KEPT = (
    "train.num_epochs",
    "gradient.failure_only",
    "gradient.analysts",
    "optimizer.learning_rate",
    "optimizer.min_learning_rate",
    "optimizer.lr_scheduler",
    "evaluation.sel_env_num",
    "evaluation.gate.look_every",
)
#: The share of a call budget that one evaluation may use, and its fewest tasks. In 24 synthetic
#: worlds, shares from 0.05 to 0.1 did equally well, and fewer than 16 tasks did not pay.
_EVALUATION_SHARE = 0.07
_FEWEST_SELECTION = 16
#: Steps, in whole epochs, that end a run if its budget does not: more did no better (decision 14).
_MOST_STEPS = 64
#: Of three independent answers, what the optimizer is sure of stands out (decision 14).
ANALYSTS = 3
#: Edits that a run should be able to try, and the most that this may put into one step.
_EDITS, _MOST_EDITS = 40, 10


def planned(config: Config, splits: Splits, state: State | None) -> tuple[Config, Splits]:
    """``config`` and ``splits`` with unset options filled in.

    A run that has begun keeps its recorded values. In a new run, a budget of calls sets the numbers
    of epochs, selection tasks (spread evenly over task types), analysts and edits per step; without
    a budget, each look of the gate is large enough to fill all calls at once.
    """
    limits = config.budget.run
    if state is not None and state.basis is not None:
        recorded = dict(leaves(state.basis.config))
        chosen = _filled(config, {key: recorded.get(key) for key in KEPT} | state.kept)
    else:
        chosen = config
        if (limits.calls, limits.tokens, limits.cost_usd) == (None, None, None):
            at_once = math.ceil(config.model.target.max_concurrency / config.rollout.attempts)
            size = max(at_once, config.evaluation.gate.look_every)
            chosen = _filled(config, {"evaluation.gate.look_every": size})
        if limits.calls:
            chosen = _within_calls(config, splits, limits.calls)
    if chosen.evaluation.sel_env_num and "sel_env_num" not in config.evaluation.model_fields_set:
        splits = replace(splits, selection=_mixed_by_type(splits.selection, config.train.seed))
    return chosen, splits


def _within_calls(config: Config, splits: Splits, calls: int) -> Config:
    sizes, train = sizes_of(config, splits), config.train
    most = max(_FEWEST_SELECTION, round(calls * _EVALUATION_SHARE / sizes.calls))
    # a step of fewer tasks than by default counts as a part of one
    full_step = max(train.batch_size * train.accumulation, Train().batch_size)
    found = {
        "train.num_epochs": math.ceil(_MOST_STEPS / max(1, math.ceil(sizes.train / full_step))),
        "evaluation.sel_env_num": 0 if most >= len(splits.selection) else most,
    }
    # others were not measured
    if config.model.optimizer.temperature != 0 and config.optimizer.skill_update_mode == "patch":
        found["gradient.analysts"] = ANALYSTS
    chosen = _filled(config, found)
    # the rates were measured with steps counted like this
    steps = last_step(chosen, replace(sizes_of(chosen, splits), look=0), None, ())
    rate = min(_MOST_EDITS, round(_EDITS / steps))
    written = config.optimizer.model_fields_set & {"learning_rate", "min_learning_rate"}
    if written or rate <= config.optimizer.learning_rate:
        return chosen
    return _filled(
        chosen, {"optimizer.learning_rate": rate, "optimizer.min_learning_rate": rate // 2}
    )


def _filled(config: Config, found: Mapping[str, object]) -> Config:
    """``config`` with the values of dotted keys that no file states; None states nothing."""
    for key, value in found.items():
        if value is not None:
            config = _set(config, key.split("."), value)
    return config


def _set(section: Part, path: Sequence[str], value: object) -> Part:
    name, *rest = path
    if not rest and name in section.model_fields_set:
        return section
    inner = _set(getattr(section, name), rest, value) if rest else value
    return section.model_copy(update={name: inner})


def _mixed_by_type(tasks: Sequence[Task], seed: int) -> tuple[Task, ...]:
    # for any N, the first N tasks hold every type in about its share
    places = {
        task.id: (number + 0.5) / len(alike)
        for alike in grouped((task.task_type, task) for task in shuffled(tasks, seed)).values()
        for number, task in enumerate(alike)
    }
    return tuple(sorted(tasks, key=lambda task: (places[task.id], task.task_type)))


def sizes_now(run: Run, checkout: Checkout) -> Sizes:
    return sizes_of(run.config, run.splits, checkout.history)


def last_step_of(run: Run, checkout: Checkout) -> int:
    sizes, asked = sizes_now(run, checkout), unheard(run.reviewer_notes, checkout.state)
    return last_step(run.config, sizes, checkout.state, checkout.history, reopened=bool(asked))


def boundary_due(run: Run, checkout: ScoredCheckout) -> int | None:
    return completed_epoch(run.config, sizes_now(run, checkout), checkout.state)


def completed_epoch(config: Config, sizes: Sizes, state: State) -> int | None:
    """The last completed epoch if its end is due and affordable; missed ends are not made up."""
    used = config.optimizer.use_slow_update or config.optimizer.use_meta_skill
    if not used or all_solved(config, sizes, state):
        return None
    fits = calls_left(config, sizes, state) >= _most_end_calls(config, sizes)
    done = state.step - extra_steps(sizes.train, config.train, state)
    completed = done // steps_per_epoch(sizes.train, config.train)
    return completed if completed > state.boundary and fits else None


# Schedule: the edit budget as a pure function of the step's number.


def lr_control(optimizer: Optimizer) -> Literal["fixed", "autonomous", "none"]:
    """What limits the number of edits or documents: the schedule, the optimizer, or nothing."""
    if optimizer.skill_update_mode == "full_rewrite_minibatch":
        return "none"
    if optimizer.lr_scheduler == "autonomous" and optimizer.lr_control_mode == "fixed":
        return "autonomous"
    return optimizer.lr_control_mode


def analyst_budget(optimizer: Optimizer) -> int | None:
    """Most edits that one analyst may propose, the same in every step; None means no limit."""
    return None if lr_control(optimizer) == "none" else optimizer.learning_rate


def edit_budget(optimizer: Optimizer, step: int, total: int, extra: int = 0) -> int | None:
    """Most edits that step ``step`` of ``total`` may apply; None without a schedule.

    Falls from ``learning_rate`` to ``min_learning_rate`` along a line or half a cosine, reaching
    the minimum in the last step; ``extra`` do not count. A run of one step keeps the maximum.
    """
    if lr_control(optimizer) != "fixed":
        return None
    top = optimizer.learning_rate
    bottom = min(optimizer.min_learning_rate, top)
    if optimizer.lr_scheduler == "constant" or total <= 1:
        return top
    elapsed = (min(step, total) - extra) / (total - extra)
    if optimizer.lr_scheduler == "linear":
        return round(top + (bottom - top) * elapsed)
    return round(bottom + 0.5 * (top - bottom) * (1 + math.cos(math.pi * elapsed)))

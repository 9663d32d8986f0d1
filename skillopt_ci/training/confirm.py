"""Confirm: test with fresh attempts whether the merged skill beats the last confirmed one.

The gate picks the best of several looks at the same tasks, so a merge is provisional. A test draws
selection tasks with replacement and makes a new attempt under each of the two skills. Where these
differ, a skill that is no better wins at most as often as a fair coin shows heads (the sign test).
The number of pairs is fixed before. The k-th test has the level 0.05 · 6/(πk)²: at most 0.05 a run.
"""

import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.ledger.evidence import as_recorded
from skillopt_ci.ledger.folder import document
from skillopt_ci.ledger.records import ConfirmationRecord, FreshPair, HistoryEntry
from skillopt_ci.ledger.summary import comparable_from
from skillopt_ci.progress import Note, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import reading
from skillopt_ci.stats import sign_test, wilson
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import capitalized, plural, score, signed
from skillopt_ci.training import plan
from skillopt_ci.training.measure import Scores, worth
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import (
    Checkout,
    RunEvent,
    ScoredCheckout,
    charged,
    history_entry,
    open_models,
    record_events,
)

STAGE = "confirmation"
#: Upper bound on the probability that a run ever confirms a skill that is no better.
ALPHA = 0.05
#: A test can end after any multiple of this many pairs.
LOOK = 8
#: Fewest pairs of a test at an epoch's end, or of a skill that was tested before: smaller ones
#: seldom confirm anything, and each makes the level of the next one stricter.
WORTHWHILE = 24
#: Most pairs of a skill's first test, enough for a clear gain; another one may use what is left.
ENOUGH = 64
#: Attempt numbers from here on are used by confirmation only, so that its attempts are fresh.
_FIRST_ATTEMPT = 1_000_000
#: Digits of a recorded score; the verdict uses the rounded scores, so it can be recomputed.
_DIGITS = 6
#: Confidence required to report that the model changed.
_SURE = 0.999


def level(test: int) -> float:
    """The probability of a false confirmation allowed to test number ``test`` (from 1)."""
    return ALPHA * 6 / (math.pi * test) ** 2


def verdict(
    wins: int, losses: int, left: int, level: float
) -> Literal["confirmed", "refuted", "open"] | None:
    """The verdict with ``left`` pairs still to come; None while these could change it."""
    if sign_test(wins, losses + left) <= level:
        return "confirmed"
    if sign_test(losses, wins + left) <= level:
        return "refuted"
    hopeless = min(sign_test(wins + left, losses), sign_test(losses + left, wins)) > level
    return "open" if hopeless else None


def fewest_pairs(test: int) -> int:
    """The fewest pairs, in whole looks, with which test number ``test`` can confirm anything."""
    return math.ceil(-math.log2(level(test)) / LOOK) * LOOK


def next_look(wins: int, losses: int, left: int, level: float) -> int:
    """How many of the ``left`` pairs to draw at once: before that, no verdict is possible.

    At most ``ENOUGH``, so that a long test does not ask a failing server for all of its pairs.
    """
    size = min(LOOK, left)
    while size < min(ENOUGH, left) and not any(
        verdict(wins + decided - lost, losses + lost, left - size, level)
        # the verdict comes soonest if all pairs differ, or all but one of an odd number
        for decided in (size, size - 1)
        for lost in range(decided + 1)
    ):
        size = min(size + LOOK, left)
    return size


def tally(record: ConfirmationRecord) -> tuple[int, int]:
    """Wins and losses of the current skill.

    A difference between 0 and 1 wins (or loses) with that probability, by the draw's own dice.
    """
    counted = [
        one.difference
        for one in record.pairs
        if random.Random(f"{record.seed}/{record.test}/{one.draw}/counts").random()
        < abs(one.difference)
    ]
    wins = sum(difference > 0 for difference in counted)
    return wins, len(counted) - wins


def recomputed(record: ConfirmationRecord) -> ConfirmationRecord:
    """``record`` with what its pairs come to; unchanged if an earlier version bet on them."""
    if record.size is None:
        return record
    (wins, losses), left = tally(record), record.size - record.draws
    action = verdict(wins, losses, left, level(record.test)) or "open"
    p_value = round(sign_test(wins, losses + left), _DIGITS)
    return record.model_copy(update={"action": action, "p_value": p_value})


def _undecided(record: ConfirmationRecord) -> bool:
    left = (record.size or record.draws) - record.draws
    return left > 0 and verdict(*tally(record), left, level(record.test)) is None


def drift(history: Sequence[HistoryEntry], record: ConfirmationRecord) -> str:
    """A message if the target model seems to have changed since the run began; otherwise empty.

    The initial skill is the control: no gate selected its first score, so fresh attempts differ
    from it only by chance, and exceed Newcombe's interval (1998) in about one test of a thousand.
    If the tasks or the way of measuring changed since, there is no control.
    """
    start, again = history[0], [pair.confirmed for pair in record.pairs]
    if record.confirmed != start.skill_sha256 or comparable_from(history) or not again:
        return ""
    then, now = start.score_after or 0.0, math.fsum(again) / len(again)
    first, fresh = wilson(then, start.tasks, _SURE), wilson(now, len(again), _SURE)
    rise = math.hypot(now - fresh.low, first.high - then)
    fall = math.hypot(fresh.high - now, then - first.low)
    if -fall <= now - then <= rise:
        return ""
    return (
        f"the initial skill scored {score(then)} when the run began and {score(now)} now: the "
        "target model seems to have changed"
    )


async def ensure_confirmed(run: Run, checkout: ScoredCheckout, *, over: bool) -> ScoredCheckout:
    """Begin or continue a confirmation test if one is due; ``over`` means that no step is left."""
    last, due = checkout.state.confirmed, due_test(run, checkout, over=over)
    if last is None or due is None:
        return checkout
    async with open_models(run, checkout, "confirm") as models:
        record = await _tested(run, checkout.skill, due, last.draws, models)
    usage, accounts = models.meter.total(), models.meter.accounts()
    made = record.draws - due.record.draws
    if not made and not usage.calls:
        return checkout
    now: dict[str, object] = {"tests": record.test, "draws": last.draws + made}
    files: dict[str, str | None] = {run.folder.confirmation(record.test): document(record)}
    if record.action == "confirmed":
        now |= {"sha256": checkout.sha256, "step": checkout.state.step}
        files[run.folder.confirmed_skill] = checkout.skill
    state = checkout.state.model_copy(
        update={"confirmed": last.model_copy(update=now), **charged(checkout, usage, accounts)}
    )
    count = max(1, len(record.pairs))
    before = math.fsum(one.confirmed for one in record.pairs) / count
    after = math.fsum(one.current for one in record.pairs) / count
    other = f"the skill of step {last.step}" if last.step else "the initial skill"
    since = f"over {other}" if after >= before else f"against {other}"
    told = f"{signed(after - before)} {since} on {plural(len(record.pairs), 'fresh pair')}"
    changed = drift(checkout.history, record)
    if changed and not run.config.evaluation.use_semantic_density:  # whose bonus pairs lack
        told += f"; {changed}"
        run.observer(Note(f"{capitalized(changed)}.", level="warning"))
    entry = history_entry(
        run,
        "confirm",
        state,
        checkout.skill,
        action=record.action,
        reason=told,
        score_before=round(before, _DIGITS),
        score_after=round(after, _DIGITS),
        tasks=len(record.pairs),
        usage=as_recorded(usage),
    )
    run.observer(StageFinished(STAGE, f"{told}: {record.action}"))
    tested = record_events(run, checkout, RunEvent(entry, state, checkout.skill, files))
    return tested if _undecided(record) else await ensure_confirmed(run, tested, over=over)


@dataclass(frozen=True, slots=True)
class _Due:
    """A test of at most ``draws`` pairs against ``text``, or ``most`` with later ones if open."""

    record: ConfirmationRecord
    draws: int
    text: str
    most: int


def due_test(run: Run, checkout: ScoredCheckout, *, over: bool) -> _Due | None:
    state, confirmed = checkout.state, checkout.state.confirmed
    if confirmed is None or not state.provisional or not run.config.evaluation.confirm:
        return None
    if not (over or _epoch_ended(run, checkout)):
        return None
    if run.config.schedule.slow_update == "inline" and plan.boundary_due(run, checkout) is not None:
        return None
    folder = run.ledger.at(checkout.commit)
    text = folder.read(folder.confirmed_skill) or folder.read(folder.initial_skill) or ""
    if sha256(text) != confirmed.sha256 or reading(text) == reading(checkout.skill):
        return None
    last = folder.read_confirmation(confirmed.tests) if confirmed.tests else None
    now = (state.current.sha256, confirmed.sha256, run.measured_under)
    # the last test, if it compared these two skills
    same = last if last and now == (last.current, last.confirmed, last.measured_under) else None
    if same is not None and same.action != "open":
        return None
    affordable = _affordable(run, checkout)
    allowed = _allowed(run, checkout, over=over) - confirmed.draws
    if same is not None and same.size and same.draws and _undecided(same):
        left = same.size - same.draws
        draws = min(left, affordable)
        return None if draws < min(LOOK, left) else _Due(same, draws, text, max(draws, allowed))
    # a test that drew no pair begins again under its number
    number = confirmed.tests if last and not last.draws else confirmed.tests + 1
    must = over and same is None  # the skill that a run ends with is tested in any case
    least = fewest_pairs(number) if must else WORTHWHILE
    most = min(affordable, ENOUGH) if same is None else affordable
    size = min(max(allowed, least) if must else allowed, most) // LOOK * LOOK
    if size < least:
        return None
    record = ConfirmationRecord(
        test=number,
        level=round(level(number), 12),
        step=state.step,
        current=checkout.sha256,
        confirmed=confirmed.sha256,
        measured_under=run.measured_under,
        metric=run.config.evaluation.gate_metric,
        seed=run.config.train.seed,
        size=size,
        draws=0,
        action="open",
        p_value=1.0,
    )
    return _Due(record, size, text, max(size, allowed if over else 0))


def _epoch_ended(run: Run, checkout: ScoredCheckout) -> bool:
    """Whether the last step ended an epoch, which was not tested since."""
    state = checkout.state
    following = plan.plan_step(run.splits.train, run.config.train, state.step + 1, state)
    tested = any(one.kind == "confirm" and one.step == state.step for one in checkout.history)
    return state.step > 0 and following.epoch != state.epoch and not tested


def _allowed(run: Run, checkout: ScoredCheckout, *, over: bool) -> int:
    """The pairs that may be drawn by now; half of the run's pairs are kept for its end."""
    state, sizes = checkout.state, plan.sizes_now(run, checkout)
    by_now = run.config.evaluation.confirm * attempts_made(run, checkout) / 2  # attempts in a pair
    steps = plan.last_step(run.config, sizes, state, checkout.history, reopened=True)
    in_all = by_now * steps / max(1, state.step)
    if not over:
        return int(by_now) - int(in_all / 2)
    # once all tasks are solved, no further step needs attempts
    return int(max(by_now, in_all) if plan.all_solved(run.config, sizes, state) else by_now)


def _affordable(run: Run, checkout: ScoredCheckout) -> int:
    """The pairs that the budgets allow, at the calls per attempt so far."""
    state, sizes = checkout.state, plan.sizes_now(run, checkout)
    calls = plan.calls_left(run.config, sizes, state, attempts=True)
    for name in ("calls", "tokens", "cost_usd"):
        limit, spent = getattr(run.config.budget.step, name), getattr(state.usage, name)
        if limit is not None and spent:
            calls = min(calls, limit * state.usage.calls / spent)
    each = max(1.0, state.usage.calls / max(1, attempts_made(run, checkout)))
    return int(min(calls, sys.maxsize) / (2 * each))


def attempts_made(run: Run, checkout: Checkout) -> int:
    """The attempts that scoring and steps took so far, counted from records, not from the cache."""
    train, history = run.config.train, checkout.history
    decided = sum(one.tasks for one in history if one.kind not in ("confirm", "finish"))
    batch = min(train.batch_size * train.accumulation, len(run.splits.train))
    steps = 0 if checkout.state is None else checkout.state.step
    return (decided + steps * batch) * run.config.rollout.attempts


async def _tested(
    run: Run, skill: str, due: _Due, drawn_before: int, models: OpenModels
) -> ConfirmationRecord:
    """The record of ``due`` after its draws, which the run numbers from ``drawn_before``."""
    scores, limit, attempts = Scores(), run.config.evaluation.max_error_rate, 2 * due.draws
    run.observer(StageStarted(STAGE, attempts))
    record, begun, end = due.record, drawn_before, drawn_before + due.draws
    while begun < end and _undecided(record):
        left = (record.size or 0) - record.draws
        size = min(end - begun, next_look(*tally(record), left, level(record.test)))
        drawn = [
            (random.Random(f"{record.seed}/{record.test}/{draw}").choice(run.selection), draw)
            for draw in range(begun, begun + size)
        ]
        begun += size
        requests = [
            AttemptRequest(task, text, STAGE, _FIRST_ATTEMPT + draw)
            for task, draw in drawn
            for text in (skill, due.text)
        ]
        try:
            rollouts = await models.runner.carry_out(
                requests, lambda one: run.observer(StageAdvanced(STAGE, one.task_id))
            )
        except BudgetExhausted as over:  # what was paid is recorded; the next command goes on
            run.observer(Note(f"The merges are not confirmed yet. {over.message}", level="warning"))
            break
        scores.add(*rollouts)
        scores.refuse_errors(limit, STAGE, attempts)
        pairs = (*record.pairs, *_pairs(run, drawn, rollouts))
        record = recomputed(
            record.model_copy(update={"pairs": pairs, "draws": record.draws + size})
        )
    scores.finish(run, STAGE)
    return record


def _pairs(
    run: Run, drawn: Sequence[tuple[Task, int]], rollouts: Sequence[Rollout]
) -> Iterator[FreshPair]:
    for (task, draw), *both in zip(drawn, rollouts[::2], rollouts[1::2], strict=True):
        if all(one.status.measured for one in both):
            current, confirmed = (
                round(float(worth(run.config.evaluation, (one.hard, one.soft))), _DIGITS)
                for one in both
            )
            yield FreshPair(id=task.id, draw=draw, current=current, confirmed=confirmed)

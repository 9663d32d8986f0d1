"""Confirm: test with fresh attempts whether the merged skill beats the last confirmed one.

The gate picks the best of several looks at the same tasks, so a merge is provisional. A test draws
selection tasks with replacement, makes a new attempt under each of the two skills, and bets on the
difference. It may stop after any pair: by Ville's inequality, if the skill is no better, the bets
ever reach 1/level with probability at most level. The k-th test of a run has the level
0.05 · 6/(πk)²; the levels sum to at most 0.05.
"""

import math
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Literal

from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.ledger.evidence import rounded
from skillopt_ci.ledger.folder import document
from skillopt_ci.ledger.records import ConfirmationRecord, Confirmed, FreshPair, HistoryEntry
from skillopt_ci.progress import Note, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import reading
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import plural, score, signed
from skillopt_ci.training.measure import MEASURED_ANEW, Scores, worth_in
from skillopt_ci.training.plan import boundary_due, calls_left, sizes_of, steps_per_epoch
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import (
    Event,
    ScoredCheckout,
    charged,
    history_entry,
    open_models,
    record_events,
)

STAGE = "confirmation"
#: Upper bound on the probability that a run ever confirms a skill that is no better.
ALPHA = 0.05
#: Pairs of attempts in one look.
LOOK = 8
#: Each bettor stakes one of these shares of its fortune on every pair. The e-value is the mean of
#: the fortunes, so that the size of the difference need not be known beforehand.
_STAKES = tuple(eighths / 8 for eighths in range(1, 8))
#: Attempt numbers from here on are used by confirmation only, so that its attempts are fresh.
_FIRST_ATTEMPT = 1_000_000
#: Digits of a recorded score; the verdict uses the rounded scores, so it can be recomputed.
_DIGITS = 6

#: Confidence required to report that the model changed.
_SURE = 0.999

Action = Literal["confirmed", "refuted", "open"]


def level(test: int) -> float:
    """The probability of a false confirmation allowed to test number ``test`` (from 1)."""
    return ALPHA * 6 / (math.pi * test) ** 2


def verdict(differences: Iterable[float], level: float) -> tuple[Action, float]:
    """The verdict on ``differences`` (current minus confirmed, in the order drawn) and the e-value.

    A skill is refuted if the same bets on the opposite side win.
    """
    better, worse, e_value = [1.0] * len(_STAKES), [1.0] * len(_STAKES), 1.0
    for difference in differences:
        better = _after(better, difference)
        worse = _after(worse, -difference)
        e_value = math.fsum(better) / len(_STAKES)
        if e_value >= 1 / level:
            return "confirmed", e_value
        if math.fsum(worse) / len(_STAKES) >= 1 / level:
            return "refuted", e_value
    return "open", e_value


def _after(fortunes: Sequence[float], difference: float) -> list[float]:
    pairs = zip(fortunes, _STAKES, strict=True)
    return [fortune * (1 + stake * difference) for fortune, stake in pairs]


def fewest_pairs(test: int, made: Sequence[float] = ()) -> int:
    """The fewest further pairs, in whole looks, that can end a test after the pairs ``made``."""

    def ends(more: float, pairs: int) -> bool:
        return verdict([*made, *[more] * pairs], level(test))[0] != "open"

    return next(n for n in count(LOOK, LOOK) if ends(1.0, n) or ends(-1.0, n))


def recomputed(record: ConfirmationRecord) -> tuple[Action, float]:
    action, e_value = verdict((one.difference for one in record.pairs), level(record.test))
    return action, round(e_value, _DIGITS)


def drift(history: Sequence[HistoryEntry], record: ConfirmationRecord) -> str:
    """A message if the target model seems to have changed since the run began; otherwise empty.

    The initial skill is the control: no gate selected its first score, so fresh attempts differ
    from it only by chance, and exceed Newcombe's interval (1998) in one test out of a thousand.
    If the tasks or the way of measuring changed since, there is no control.
    """
    start, again = history[0], [pair.confirmed for pair in record.pairs]
    measured_anew = any(
        entry.kind == "measure"
        and (entry.skill_sha256 == before.skill_sha256 or MEASURED_ANEW in entry.reason)
        for before, entry in pairwise(history)
    )
    if record.confirmed != start.skill_sha256 or measured_anew or not again:
        return ""
    then, now = start.score_after or 0.0, math.fsum(again) / len(again)
    first, fresh = wilson(then, start.tasks, _SURE), wilson(now, len(again), _SURE)
    if now > then:
        chance = math.hypot(now - fresh.low, first.high - then)
    else:
        chance = math.hypot(fresh.high - now, then - first.low)
    if abs(now - then) <= chance:
        return ""
    return (
        f"the initial skill scored {score(then)} when the run began and {score(now)} now: the "
        "target model seems to have changed"
    )


@dataclass(frozen=True, slots=True)
class Due:
    """A test to begin or continue, and how many ``draws`` it may make now."""

    record: ConfirmationRecord
    draws: int
    confirmed: Confirmed
    text: str


async def ensure_confirmed(run: Run, checkout: ScoredCheckout, *, over: bool) -> ScoredCheckout:
    """Test the current skill against the last confirmed one if that is due, and record it.

    ``over`` means that no step is left. If the budget runs out, the next command continues.
    """
    if (due := _due(run, checkout, over=over)) is None:
        return checkout
    async with open_models(run, checkout, "confirm") as models:
        record = await _tested(run, checkout, due, models)
    usage, accounts = models.meter.total(), models.meter.accounts()
    made = record.draws - due.record.draws
    if not made and not usage.calls:
        return checkout
    confirmed = due.confirmed.model_copy(
        update={"tests": record.test, "draws": due.confirmed.draws + made}
    )
    files: dict[str, str | None] = {run.folder.confirmation(record.test): document(record)}
    if record.action == "confirmed":
        now = {"sha256": checkout.sha256, "step": checkout.state.step}
        confirmed = confirmed.model_copy(update=now)
        files[run.folder.confirmed_skill] = checkout.skill
    changes = {"confirmed": confirmed, **charged(checkout, usage, accounts)}
    state = checkout.state.model_copy(update=changes)
    before, after = (
        math.fsum(side) / max(1, len(record.pairs))
        for side in ([one.confirmed for one in record.pairs], [one.current for one in record.pairs])
    )
    since = f"the skill of step {due.confirmed.step}" if due.confirmed.step else "the initial skill"
    held = "over" if after >= before else "against"
    told = f"{signed(after - before)} {held} {since} on {plural(len(record.pairs), 'fresh pair')}"
    if changed := drift(checkout.history, record):
        told += f"; {changed}"
        run.observer(Note(f"{changed[0].upper()}{changed[1:]}.", level="warning"))
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
        usage=rounded(usage),
    )
    run.observer(StageFinished(STAGE, f"{told}: {record.action}"))
    return record_events(run, checkout, Event(entry, state, checkout.skill, files))


def _due(run: Run, checkout: ScoredCheckout, *, over: bool) -> Due | None:
    state = checkout.state
    confirmed = state.confirmed
    if confirmed is None or not state.provisional or not run.config.evaluation.confirm:
        return None
    if not over:
        size = steps_per_epoch(len(run.splits.train), run.config.train)
        tested = any(one.kind == "confirm" and one.step == state.step for one in checkout.history)
        if state.step == 0 or state.step % size or tested:
            return None
    if run.config.schedule.slow_update == "inline" and boundary_due(run, checkout) is not None:
        return None
    read = partial(run.ledger.read, checkout.commit)
    text = read(run.folder.confirmed_skill) or read(run.folder.initial_skill) or ""
    if sha256(text) != confirmed.sha256 or reading(text) == reading(checkout.skill):
        return None
    last = run.folder.read_confirmation(read, confirmed.tests) if confirmed.tests else None
    now = (state.current.sha256, confirmed.sha256, run.measured_under)
    if last is None or now != (last.current, last.confirmed, last.measured_under):
        number = confirmed.tests + (last is None or last.draws > 0)
        last = ConfirmationRecord(
            test=number,
            level=round(level(number), 12),
            step=state.step,
            current=checkout.sha256,
            confirmed=confirmed.sha256,
            measured_under=run.measured_under,
            metric=run.config.evaluation.gate_metric,
            seed=run.config.train.seed,
            draws=0,
            action="open",
            e_value=1.0,
        )
    if last.action != "open":
        return None
    attempts = _attempts(run, checkout)
    left = int(run.config.evaluation.confirm * attempts) // 2 - confirmed.draws
    least = LOOK if last.draws else fewest_pairs(last.test)
    if over and not last.draws:
        left = max(left, least)
    # the pairs that the budget allows, at the calls per attempt so far
    calls = calls_left(run.config, sizes_of(run.config, run.splits), state)
    for name in ("calls", "tokens", "cost_usd"):
        limit, spent = getattr(run.config.budget.step, name), getattr(state.usage, name)
        if limit is not None and spent:
            calls = min(calls, limit * state.usage.calls / spent)
    calls = min(calls, sys.maxsize)
    each = max(1.0, state.usage.calls / max(1, attempts))
    left = min(left, int(calls / (2 * each)))
    return Due(last, left // LOOK * LOOK, confirmed, text) if left >= least else None


def _attempts(run: Run, checkout: ScoredCheckout) -> int:
    """The attempts that scoring and steps took so far, counted from records, not from the cache."""
    train, history = run.config.train, checkout.history
    decided = sum(one.tasks for one in history if one.kind not in ("confirm", "finish"))
    batches = checkout.state.step * min(
        train.batch_size * train.accumulation, len(run.splits.train)
    )
    return (decided + batches) * run.config.rollout.attempts


async def _tested(
    run: Run, checkout: ScoredCheckout, due: Due, models: OpenModels
) -> ConfirmationRecord:
    record, scores = due.record, Scores()
    run.observer(StageStarted(STAGE, 2 * due.draws))
    skills, limit = (checkout.skill, due.text), run.config.evaluation.max_error_rate

    def done(rollout: Rollout) -> None:
        run.observer(StageAdvanced(STAGE, rollout.task_id))

    begun, end = due.confirmed.draws, due.confirmed.draws + due.draws
    while begun < end and record.action == "open":
        # make looks that will certainly be needed at the same time
        size = min(end - begun, fewest_pairs(record.test, [one.difference for one in record.pairs]))
        drawn: list[tuple[Task, int]] = []
        for draw in range(begun, begun + size):
            dice = random.Random(f"{record.seed}/{record.test}/{draw}")
            drawn.append((dice.choice(run.selection), draw))
        begun += size
        requests = [
            AttemptRequest(task, skill, STAGE, _FIRST_ATTEMPT + draw)
            for task, draw in drawn
            for skill in skills
        ]
        try:
            rollouts = await models.runner.carry_out(requests, done)
        except BudgetExhausted as end:  # what was paid is recorded; the next command goes on
            told = f"What was merged is not confirmed yet. {end.message}"
            run.observer(Note(told, level="warning"))
            break
        for rollout in rollouts:
            scores.add(rollout)
        if scores.failed.total() > limit * 2 * due.draws:
            scores.refuse_errors(limit, STAGE)
        pairs = (*record.pairs, *_pairs(run, drawn, rollouts))
        record = record.model_copy(update={"pairs": pairs, "draws": record.draws + size})
        action, e_value = recomputed(record)
        record = record.model_copy(update={"action": action, "e_value": e_value})
    scores.refuse_errors(limit, STAGE)
    return record


def _pairs(
    run: Run, drawn: Sequence[tuple[Task, int]], rollouts: Sequence[Rollout]
) -> Iterable[FreshPair]:
    worth = worth_in(run.config.evaluation)
    sides = zip(drawn, rollouts[::2], rollouts[1::2], strict=True)
    for (task, draw), *attempts in sides:
        if all(one.status.measured for one in attempts):
            current, confirmed = (
                round(float(worth((one.hard, one.soft))), _DIGITS) for one in attempts
            )
            yield FreshPair(id=task.id, draw=draw, current=current, confirmed=confirmed)

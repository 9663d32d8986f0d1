"""Learning rate: the optimizer decides how many of the merged changes are applied."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.records import LearningRateRecord
from skillopt_ci.messages import fenced
from skillopt_ci.progress import StageFinished, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.rollout.metrics import Aggregate
from skillopt_ci.training import reply_schema
from skillopt_ci.training.ask import Lost, ask_vital, optimizer_request
from skillopt_ci.training.modes.mode import Desk, UpdateMode
from skillopt_ci.training.patch import Item
from skillopt_ci.training.wire_json import WireError, extract_json
from skillopt_ci.training.wire_shape import LearningRateShape, validated

_INTEGER = re.compile(r"-?\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Choice:
    number: int
    told: LearningRateShape


async def decide_learning_rate(
    skill: str,
    edits: Sequence[Item],
    means: Aggregate,
    *,
    mode: UpdateMode[Item],
    desk: Desk,
) -> LearningRateRecord:
    """Let the optimizer choose how many of ``edits`` are applied, given the rollouts' ``means``.

    Without a usable answer none is. Raises
    :class:`~skillopt_ci.model.types.ModelUnavailable`: that says nothing about the edits.
    """
    desk.observer(StageStarted("step size"))
    user = library.joined(
        library.meta_skill(desk.meta_skill),
        library.current_skill(skill),
        _evidence(means, len(edits), mode.noun),
        _proposed(edits, mode),
        library.previous_steps(desk.step_buffer),
    )
    name, schema = "lr_autonomous", reply_schema.learning_rate()
    request = optimizer_request(desk.prompts, name, name, user, reply_schema=schema)
    reply = await ask_vital(
        desk.client, request, _parse, what="learning rate", observer=desk.observer
    )
    record = _fallback(reply, len(edits)) if isinstance(reply, Lost) else _record(reply, len(edits))
    desk.observer(StageFinished("step size", str(record.learning_rate)))
    return record


def _evidence(means: Aggregate, count: int, noun: str) -> str:
    worst = means.pessimistic()
    lost = (
        f"rollout_errors: {means.errors} of {worst.n} attempts could not be measured; they count "
        f"as failed here. Without them: hard {means.hard:.6f}, soft {means.soft:.6f}"
    )
    facts = (
        f"rollout_n: {worst.n}",
        f"rollout_hard: {worst.hard:.6f}",
        f"rollout_soft: {worst.soft:.6f}",
        *([lost] if means.errors else []),
        f"proposed_update_items: {count}",
        f"update_item_type: {noun}",
    )
    return library.section("Evidence", "\n".join(f"- {fact}" for fact in facts))


def _proposed(edits: Sequence[Item], mode: UpdateMode[Item]) -> str:
    lines = "\n".join(mode.pool_line(index, edit) for index, edit in enumerate(edits))
    return library.section(f"Proposed items ({len(edits)} total)", fenced(lines))


def _parse(text: str) -> _Choice:
    reply = validated(LearningRateShape, extract_json(text))
    number = coerced(reply.learning_rate)
    if number is None:
        raise WireError("`learning_rate`: expected a whole number, 0 or more.")
    return _Choice(number, reply)


def coerced(value: object) -> int | None:
    """Read a learning rate, however it is written; a truth value or no number at all is None.

    A number below 0 means 0; of a text the first whole number counts.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return max(0, value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    found = _INTEGER.search(f"{value:f}" if isinstance(value, float) else value)
    return max(0, int(found[0])) if found else None


def _record(choice: _Choice, available: int) -> LearningRateRecord:
    told = choice.told
    return LearningRateRecord(
        learning_rate=min(choice.number, available),
        raw=choice.number,
        available=available,
        clamped=choice.number > available,
        reasoning=told.reasoning,
        confidence=told.confidence,
        risk_notes=told.risk_notes,
    )


def _fallback(lost: Lost, available: int) -> LearningRateRecord:
    reason = f"no usable answer: {lost.error.message}"
    return LearningRateRecord(learning_rate=0, available=available, fallback=True, reasoning=reason)

"""Replies of the optimizer model: tolerant parsing, strict validation.

A reply that cannot be used raises :class:`WireError`, whose message can be shown to the model on
its one retry. In a reply that can be used, single unusable edits are dropped and counted.
"""

from dataclasses import dataclass
from typing import Generic

from skillopt_ci.skill.edits import Source
from skillopt_ci.training.patch import FailurePattern, Item, Patch
from skillopt_ci.training.payload import Payload
from skillopt_ci.training.wire_json import WireError, extract_json
from skillopt_ci.training.wire_shape import (
    MAX_COUNT,
    FailureShape,
    RankingShape,
    ReplyShape,
    clean,
    usable,
    validated,
    whole_number,
)

__all__ = [
    "AnalystReply",
    "MergeReply",
    "Ranking",
    "WireError",
    "extract_json",
    "parse_analyst",
    "parse_merge",
    "parse_ranking",
]


@dataclass(frozen=True, slots=True)
class AnalystReply(Generic[Item]):
    """An analyst's proposal; ``dropped`` counts the edits that could not be used.

    ``notes`` are reminders for the appendix.
    """

    patch: Patch[Item]
    failure_patterns: tuple[FailurePattern, ...] = ()
    success_patterns: tuple[str, ...] = ()
    dropped: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeReply(Generic[Item]):
    """A merged patch; ``dropped`` counts the edits that could not be used."""

    patch: Patch[Item]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Positions in the edit pool, most important first, and the model's reasons."""

    indices: tuple[int, ...]
    reasoning: str = ""


def parse_analyst(
    payload: Payload[Item], text: str, source: Source, shown: int, *, notes: bool = False
) -> AnalystReply[Item]:
    """Read an analyst's reply on ``shown`` trajectories (at least 1).

    No count exceeds ``shown``; an edit that states no ``support_count`` is taken to be backed by
    all of them. Where ``notes`` were asked for too, a reply may consist of them alone. Raises
    :class:`WireError`.
    """
    reply = _reply(text, payload.key, carries_notes=notes)
    patch, dropped = _patch(payload, reply, source, default_support=shown, max_support=shown)
    failures, _ = usable(FailureShape.model_validate, reply.failure_summary)
    patterns = tuple(
        FailurePattern(each.failure_type, each.description, min(each.count or 1, shown))
        for each in failures
        if each.failure_type or each.description
    )
    successes = (clean(each).strip() for each in reply.success_patterns if isinstance(each, str))
    reminders = reply.appendix_notes if notes else ()
    return AnalystReply(patch, patterns, tuple(filter(None, successes)), dropped, reminders)


def parse_merge(payload: Payload[Item], text: str, source: Source = "failure") -> MergeReply[Item]:
    """Read the reply to a merge; ``source`` is the origin of edits that state none.

    Raises :class:`WireError`.
    """
    reply = _reply(text, payload.key)
    return MergeReply(*_patch(payload, reply, source, default_support=1, max_support=MAX_COUNT))


def parse_ranking(text: str, pool_size: int, limit: int) -> Ranking:
    """Read the choice of at most ``limit`` among ``pool_size`` edits (0-based positions).

    Positions that do not exist and repetitions are left out. Raises :class:`WireError` if nothing
    valid is chosen.
    """
    reply = validated(RankingShape, extract_json(text))
    numbers = (whole_number(entry) for entry in reply.selected_indices)
    chosen = dict.fromkeys(n for n in numbers if n is not None and n < pool_size)
    if not chosen:
        raise WireError(
            "`selected_indices` names no edit of the pool: expected at least one whole number "
            f"from 0 to {pool_size - 1}."
        )
    return Ranking(tuple(chosen)[:limit], reply.reasoning)


def _reply(text: str, key: str, *, carries_notes: bool = False) -> ReplyShape:
    """Read a reply whose edits may stand at the top or under ``patch``."""
    reply = extract_json(text)
    if "patch" not in reply and key in reply:
        reply = {**reply, "patch": reply}
    if carries_notes and not reply.get("patch") and reply.get("appendix_notes"):
        reply = {**reply, "patch": {key: []}}
    return validated(ReplyShape, reply)


def _patch(
    payload: Payload[Item],
    reply: ReplyShape,
    source: Source,
    *,
    default_support: int,
    max_support: int,
) -> tuple[Patch[Item], int]:
    entries, complaints = usable(
        lambda entry: payload.read(entry, source, default_support, max_support),
        reply.patch.entries(payload.key),
    )
    if complaints and not entries:
        key, first = payload.key, complaints[0]
        raise WireError(f"No entry of `{key}` can be used; the first: {first}.")
    return Patch(tuple(entries), reply.patch.reasoning), len(complaints)

"""Replies of the optimizer model: tolerant parsing, strict validation.

A reply that cannot be used raises :class:`WireError`, whose message can be shown to the model on
its one retry. In a reply that can be used, single unusable edits are dropped and counted.
"""

from dataclasses import dataclass

from skillopt_ci.skill.edit import Edit, Source
from skillopt_ci.training.patch import FailurePattern, Patch
from skillopt_ci.training.wire_json import WireError, extract_json
from skillopt_ci.training.wire_shape import (
    MAX_COUNT,
    EditShape,
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
class AnalystReply:
    """An analyst's proposal; ``dropped`` counts the edits that could not be used."""

    patch: Patch
    failure_patterns: tuple[FailurePattern, ...] = ()
    success_patterns: tuple[str, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class MergeReply:
    """A merged patch; ``dropped`` counts the edits that could not be used."""

    patch: Patch
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Positions in the edit pool, most important first, and the model's reasons."""

    indices: tuple[int, ...]
    reasoning: str = ""


def parse_analyst(text: str, source: Source, shown: int) -> AnalystReply:
    """Read an analyst's reply on ``shown`` trajectories (at least 1).

    No count exceeds ``shown``; an edit that states no ``support_count`` is taken to be backed by
    all of them. Raises :class:`WireError`.
    """
    reply = validated(ReplyShape, extract_json(text))
    patch, dropped = _patch(reply, source, default_support=shown, max_support=shown)
    failures, _ = usable(FailureShape, reply.failure_summary)
    patterns = tuple(
        FailurePattern(each.failure_type, each.description, min(each.count or 1, shown))
        for each in failures
        if each.failure_type or each.description
    )
    successes = (clean(each).strip() for each in reply.success_patterns if isinstance(each, str))
    return AnalystReply(patch, patterns, tuple(filter(None, successes)), dropped)


def parse_merge(text: str, source: Source = "failure") -> MergeReply:
    """Read the reply to a merge; ``source`` is the origin of edits that state none.

    Raises :class:`WireError`.
    """
    reply = validated(ReplyShape, extract_json(text))
    return MergeReply(*_patch(reply, source, default_support=1, max_support=MAX_COUNT))


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


def _patch(
    reply: ReplyShape, source: Source, *, default_support: int, max_support: int
) -> tuple[Patch, int]:
    entries, complaints = usable(EditShape, reply.patch.edits)
    if complaints and not entries:
        raise WireError(f"No entry of `edits` can be used; the first: {complaints[0]}.")
    edits = (
        Edit(
            op=each.op,
            target=each.target or "",
            content=each.content or "",
            source_type=each.source_type or source,
            support_count=max(1, min(each.support_count or default_support, max_support)),
            merge_level=each.merge_level or 0,
        )
        for each in entries
    )
    return Patch(tuple(edits), reply.patch.reasoning), len(complaints)

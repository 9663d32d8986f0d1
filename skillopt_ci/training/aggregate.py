"""Aggregate and select: merge the analysts' patches into one and keep its best edits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Literal

from skillopt_ci.aio import map_ordered
from skillopt_ci.config.config import Gradient
from skillopt_ci.messages import fenced
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.skill.edits import Source
from skillopt_ci.text import plural
from skillopt_ci.training import replies
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.replies import Item, Patch, Reflection
from skillopt_ci.training.update import UpdateMode

_FINAL = "merge_final"
_PROMPT: Mapping[Source, str] = {"failure": "merge_failure", "success": "merge_success"}


async def merge(
    skill: str,
    reflections: Sequence[Reflection[Item]],
    *,
    mode: UpdateMode[Item],
    gradient: Gradient,
    chat: OptimizerChat,
) -> Patch[Item]:
    """Merge the patches of ``reflections``; without a usable reply, keep all their edits."""
    stable = library.joined(library.meta_skill(chat.meta_skill), library.current_skill(skill))
    if gradient.analysts > 1:
        stable = library.joined(stable, library.SAME_TRAJECTORIES)
    merger = _Merger(mode, chat, stable, gradient.merge_batch_size)
    chat.observer(StageStarted("aggregate"))
    sources: tuple[Source, ...] = ("failure", "success")
    failure, success = await map_ordered(partial(merger.side, reflections), sources, limit=2)
    merged = failure if failure.edits else success
    if failure.edits and success.edits:
        both = failure.edits + success.edits
        named = {
            "1 (failure-driven, HIGH priority)": failure,
            "2 (success-driven, lower priority)": success,
        }
        groups = (
            library.section(
                f"Group {title}: {len(patch.edits)} {mode.noun}s",
                _as_json([replies.as_json(edit) for edit in patch.edits]),
            )
            for title, patch in named.items()
        )
        patch = await merger.merged(_FINAL, both, *groups, what="final merge", source="failure")
        merged = patch or Patch(both, "fallback: failure first, then success")
    chat.observer(StageFinished("aggregate", f"{plural(len(merged.edits), mode.noun)} left"))
    return merged


@dataclass(frozen=True, slots=True)
class _Merger(Generic[Item]):
    mode: UpdateMode[Item]
    chat: OptimizerChat
    stable: str
    batch_size: int

    async def side(self, reflections: Sequence[Reflection[Item]], source: Source) -> Patch[Item]:
        level, size = 0, self.batch_size
        own = (one.patch for one in reflections if one.source_type == source)
        patches = [patch for patch in own if patch.edits]
        while len(patches) > 1:
            level += 1
            chunks = [patches[start : start + size] for start in range(0, len(patches), size)]
            merged = await map_ordered(
                partial(self._chunk, source, level), chunks, limit=len(chunks)
            )
            patches = [patch for patch in merged if patch.edits]
        return patches[0] if patches else Patch()

    async def _chunk(self, source: Source, level: int, chunk: Sequence[Patch[Item]]) -> Patch[Item]:
        if len(chunk) == 1:
            return chunk[0]
        edits = [edit for patch in chunk for edit in patch.edits]
        heading = f"Patches to merge ({len(chunk)} total, merge level {level})"
        shown = [
            {
                self.mode.payload.key: list(map(replies.as_json, one.edits)),
                "reasoning": one.reasoning,
            }
            for one in chunk
        ]
        patch = await self.merged(
            _PROMPT[source],
            edits,
            library.section(heading, _as_json(shown)),
            what=f"{source} merge, level {level}",
            source=source,
        )
        if patch is None:
            kept = (replace(one, merge_level=one.merge_level or level) for one in edits)
            return Patch(tuple(kept), "fallback concatenation")
        merged = (replace(edit, merge_level=level, source_type=source) for edit in patch.edits)
        return replace(patch, edits=tuple(merged))

    async def merged(
        self, prompt: str, edits: Sequence[Item], *parts: str, what: str, source: Source
    ) -> Patch[Item] | None:
        chat, followed = self.chat, any(edit.note_ids for edit in edits)
        reply = await chat.ask(
            what,
            library.joined(self.stable, library.MERGED_WISHES if followed else "", *parts),
            partial(replies.parse_merge, self.mode.payload, source=source),
            replies.merge(self.mode.payload, final=prompt == _FINAL, wishes=followed),
            prompt=prompt + self.mode.prompt_suffix,
            stage="merge",
            tokens=self.mode.reply_tokens,
        )
        chat.observer(StageAdvanced("aggregate", what))
        if isinstance(reply, Lost):
            return None
        # an edit that was only passed on keeps the notes that it follows
        bare = partial(replace, source_type="failure", support_count=1, merge_level=0, note_ids=())
        notes = {bare(edit): edit.note_ids for edit in edits}
        found = (
            replace(one, note_ids=one.note_ids or notes.get(bare(one), ())) for one in reply.edits
        )
        return Patch(tuple(found), reply.reasoning, ordered=True)


def _as_json(value: object) -> str:
    return fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")


# Select: if a patch has more edits than the budget allows, the model ranks the best ones.


@dataclass(frozen=True, slots=True)
class Selected(Generic[Item]):
    """The edits to apply, in order.

    ``how`` is ``untouched`` (all fit the budget), ``ranked`` (by the model) or ``truncated`` (to
    the first ones: the merge ordered them, no usable ranking, or a budget of 0).
    """

    patch: Patch[Item]
    how: Literal["untouched", "ranked", "truncated"]


async def select(
    skill: str,
    patch: Patch[Item],
    budget: int | None,
    *,
    mode: UpdateMode[Item],
    chat: OptimizerChat,
    trust_order: bool = False,
) -> Selected[Item]:
    """Choose at most ``budget`` edits (None: all); ask the model only if there is a choice.

    With ``trust_order``, an ordered patch's first edits are chosen: the merge has just ranked them.
    """
    selected, count = Selected(patch, "untouched"), len(patch.edits)
    if budget is not None and count > budget:
        if budget and trust_order and patch.ordered:
            told = f"{patch.reasoning} [the first {budget} of {count}, in the order of the merge]"
            first = replace(patch, edits=patch.edits[:budget], reasoning=told)
            selected = Selected(first, "truncated")
        else:
            selected = await _ranked(skill, patch, budget, mode=mode, chat=chat)
    most = "without limit" if budget is None else f"of at most {budget}"
    chat.observer(StageFinished("select", f"{plural(len(selected.patch.edits), mode.noun)} {most}"))
    return selected


async def _ranked(
    skill: str, patch: Patch[Item], budget: int, *, mode: UpdateMode[Item], chat: OptimizerChat
) -> Selected[Item]:
    pool = patch.edits
    if budget > 0:
        chat.observer(StageStarted("select"))
        user = library.joined(
            library.meta_skill(chat.meta_skill),
            library.current_skill(skill),
            library.section(
                f"{mode.noun.capitalize()} pool ({len(pool)} {mode.noun}s)",
                mode.pool(pool),
                f"Select at most {budget} {mode.noun}s.",
            ),
            library.ranked_wishes([n for n, edit in enumerate(pool) if edit.note_ids]),
        )
        ranking = await chat.ask(
            "ranking",
            user,
            partial(replies.parse_ranking, pool_size=len(pool), limit=budget),
            replies.RANKING,
            prompt=f"ranking{mode.prompt_suffix}",
            stage="ranking",
        )
        if not isinstance(ranking, Lost):
            indices, why = ranking
            note = f"[optimizer-ranked: selected {len(indices)}/{len(pool)}] {why}"
            chosen = tuple(pool[index] for index in indices)
            return Selected(Patch(chosen, f"{patch.reasoning} {note}".strip()), "ranked")
    note = f"[fallback truncated {len(pool)}->{budget}]"
    return Selected(Patch(pool[:budget], f"{patch.reasoning} {note}".strip()), "truncated")

"""Aggregate: many analysts' patches become one, each kind by itself and then both together."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from skillopt_ci.concurrency import map_ordered, siblings
from skillopt_ci.fence import fenced
from skillopt_ci.model.client import ChatClient
from skillopt_ci.progress import Observer, StageAdvanced, StageStarted
from skillopt_ci.prompts import sections
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.settings.config import Gradient
from skillopt_ci.skill.edit import Edit, Source
from skillopt_ci.training.ask import Lost, ask, optimizer_request
from skillopt_ci.training.patch import Patch, Reflection
from skillopt_ci.training.wire import parse_merge

_PROMPT: Mapping[Source, str] = {"failure": "merge_failure", "success": "merge_success"}


async def merge(
    skill: str,
    reflections: Sequence[Reflection],
    *,
    gradient: Gradient,
    prompts: Prompts,
    client: ChatClient,
    observer: Observer,
    meta_skill: str = "",
) -> Patch:
    """Return the one patch that the patches of ``reflections`` amount to; it may be empty.

    Where the model gives no usable answer, edits are put one after the other, failures first.
    """
    failures, successes = patches_of(reflections, "failure"), patches_of(reflections, "success")
    slots = asyncio.Semaphore(gradient.analyst_workers)
    stable = sections.joined(sections.meta_skill(meta_skill), sections.current_skill(skill))
    merger = _Merger(client, prompts, observer, stable, gradient.merge_batch_size, slots)
    observer(StageStarted("aggregate"))
    async with siblings() as sides:
        failure = sides.create_task(merger.side(failures, "failure"))
        success = sides.create_task(merger.side(successes, "success"))
    return await merger.final(failure.result(), success.result())


def patches_of(reflections: Iterable[Reflection], source: Source) -> tuple[Patch, ...]:
    """Return the patches of one source that propose anything, in order."""
    return tuple(
        reflection.patch
        for reflection in reflections
        if reflection.source_type == source and reflection.patch.edits
    )


@dataclass(frozen=True, slots=True)
class _Merger:
    """What every merge call has in common; ``stable`` opens each user message.

    ``slots`` are shared by both sides, so that together they keep to the limit of calls.
    """

    client: ChatClient
    prompts: Prompts
    observer: Observer
    stable: str
    batch_size: int
    slots: asyncio.Semaphore

    async def side(self, patches: Sequence[Patch], source: Source) -> Patch:
        """Merge patches of one source, ``batch_size`` at a time, until one is left."""
        level = 0
        while len(patches) > 1:
            level += 1
            patches = await self._round(patches, source, level)
        return patches[0] if patches else Patch()

    async def _round(self, patches: Sequence[Patch], source: Source, level: int) -> list[Patch]:
        async def one(chunk: Sequence[Patch]) -> Patch:
            return chunk[0] if len(chunk) == 1 else await self._chunk(chunk, source, level)

        size = self.batch_size
        chunks = [patches[start : start + size] for start in range(0, len(patches), size)]
        merged = await map_ordered(one, chunks, limit=len(chunks))
        return [patch for patch in merged if patch.edits]

    async def _chunk(self, chunk: Sequence[Patch], source: Source, level: int) -> Patch:
        heading = f"Patches to merge ({len(chunk)} total, merge level {level})"
        patch = await self._merged(
            _PROMPT[source],
            sections.section(heading, _as_json([asdict(patch) for patch in chunk])),
            what=f"{source} merge, level {level}",
            source=source,
        )
        if patch is None:
            edits = [_levelled(edit, edit.merge_level or level) for edit in _all_edits(chunk)]
            return Patch(tuple(edits), "fallback concatenation")
        edits = [replace(_levelled(edit, level), source_type=source) for edit in patch.edits]
        return Patch(tuple(edits), patch.reasoning)

    async def final(self, failure: Patch, success: Patch) -> Patch:
        """Merge the two sides, failures before successes; an empty side leaves the other alone."""
        if not (failure.edits and success.edits):
            return failure if failure.edits else success
        patch = await self._merged(
            "merge_final",
            _group("1 (failure-driven, HIGH priority)", failure.edits),
            _group("2 (success-driven, lower priority)", success.edits),
            what="final merge",
            source="failure",
        )
        if patch is None:
            both = _all_edits((failure, success))
            return Patch(both, "fallback: failure first, then success")
        return patch

    async def _merged(self, prompt: str, *parts: str, what: str, source: Source) -> Patch | None:
        user = sections.joined(self.stable, *parts)
        request = optimizer_request(self.prompts, prompt, "merge", user)
        async with self.slots:
            reply = await ask(
                self.client,
                request,
                lambda text: parse_merge(text, source),
                what=what,
                observer=self.observer,
            )
        self.observer(StageAdvanced("aggregate", what))
        return None if isinstance(reply, Lost) else reply.patch


def _group(title: str, edits: Sequence[Edit]) -> str:
    heading = f"Group {title}: {len(edits)} edits"
    return sections.section(heading, _as_json([asdict(edit) for edit in edits]))


def _levelled(edit: Edit, level: int) -> Edit:
    return replace(edit, merge_level=level)


def _all_edits(patches: Iterable[Patch]) -> tuple[Edit, ...]:
    return tuple(edit for patch in patches for edit in patch.edits)


def _as_json(value: object) -> str:
    return fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")

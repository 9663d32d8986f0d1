"""Select: of a patch with more edits than the budget allows, the model ranks the best."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_ci.fence import fenced
from skillopt_ci.model.client import ChatClient
from skillopt_ci.progress import Observer, StageStarted
from skillopt_ci.prompts import sections
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edit import Edit
from skillopt_ci.training.ask import Lost, ask, optimizer_request
from skillopt_ci.training.patch import Patch
from skillopt_ci.training.wire import Ranking, parse_ranking


@dataclass(frozen=True, slots=True)
class Selected:
    """The edits that are to be applied, in that order.

    ``how`` is ``untouched`` (all fitted the budget), ``ranked`` (chosen by the model) or
    ``truncated`` (the first ones, for want of a usable ranking or of any budget).
    """

    patch: Patch
    how: Literal["untouched", "ranked", "truncated"]


async def select(
    skill: str,
    patch: Patch,
    budget: int,
    *,
    prompts: Prompts,
    client: ChatClient,
    observer: Observer,
    meta_skill: str = "",
) -> Selected:
    """Choose at most ``budget`` edits; nobody is asked when all fit or none may be applied."""
    pool = patch.edits
    if len(pool) <= budget:
        return Selected(patch, "untouched")
    if budget == 0:
        return _truncated(patch, budget)
    observer(StageStarted("select"))
    user = sections.joined(
        sections.meta_skill(meta_skill), sections.current_skill(skill), _pool(pool, budget)
    )
    ranking = await ask(
        client,
        optimizer_request(prompts, "ranking", "ranking", user),
        lambda text: parse_ranking(text, len(pool), budget),
        what="ranking",
        observer=observer,
    )
    return _truncated(patch, budget) if isinstance(ranking, Lost) else _ranked(patch, ranking)


def _pool(edits: Sequence[Edit], budget: int) -> str:
    lines = "\n".join(_line(index, edit) for index, edit in enumerate(edits))
    return sections.section(
        f"Edit pool ({len(edits)} edits)", fenced(lines), f"Select at most {budget} edits."
    )


def _line(index: int, edit: Edit) -> str:
    op, target, content = (
        json.dumps(value, ensure_ascii=False) for value in (edit.op, edit.target, edit.content)
    )
    return f"[{index}] op={op} target={target} content={content} support={edit.support_count}"


def _ranked(patch: Patch, ranking: Ranking) -> Selected:
    edits = tuple(patch.edits[index] for index in ranking.indices)
    note = f"[optimizer-ranked: selected {len(edits)}/{len(patch.edits)}] {ranking.reasoning}"
    return Selected(_noted(patch, edits, note), "ranked")


def _truncated(patch: Patch, budget: int) -> Selected:
    note = f"[fallback truncated {len(patch.edits)}->{budget}]"
    return Selected(_noted(patch, patch.edits[:budget], note), "truncated")


def _noted(patch: Patch, edits: tuple[Edit, ...], note: str) -> Patch:
    return Patch(edits, f"{patch.reasoning} {note}".strip())

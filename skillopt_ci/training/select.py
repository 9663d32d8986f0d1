"""Select: of a patch with more edits than the budget allows, the model ranks the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal

from skillopt_ci.messages import fenced
from skillopt_ci.model.types import ChatClient
from skillopt_ci.progress import Observer, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.training import replies
from skillopt_ci.training.ask import Lost, ask, optimizer_request
from skillopt_ci.training.modes import UpdateMode
from skillopt_ci.training.replies import Item, Patch, Ranking, parse_ranking


@dataclass(frozen=True, slots=True)
class Selected(Generic[Item]):
    """The edits that are to be applied, in that order.

    ``how`` is ``untouched`` (all fitted the budget), ``ranked`` (chosen by the model) or
    ``truncated`` (the first ones, for want of a usable ranking or of any budget).
    """

    patch: Patch[Item]
    how: Literal["untouched", "ranked", "truncated"]


async def select(
    skill: str,
    patch: Patch[Item],
    budget: int | None,
    *,
    mode: UpdateMode[Item],
    prompts: Prompts,
    client: ChatClient,
    observer: Observer,
    meta_skill: str = "",
) -> Selected[Item]:
    """Choose at most ``budget`` edits (None: all); nobody is asked when all or none are taken."""
    pool = patch.edits
    if budget is None or len(pool) <= budget:
        return Selected(patch, "untouched")
    if budget == 0:
        return _truncated(patch, budget)
    observer(StageStarted("select"))
    user = library.joined(
        library.meta_skill(meta_skill),
        library.current_skill(skill),
        _pool(pool, budget, mode),
        library.ranked_wishes([n for n, edit in enumerate(pool) if edit.note_ids]),
    )
    ranking = await ask(
        client,
        optimizer_request(
            prompts,
            f"ranking{mode.prompt_suffix}",
            "ranking",
            user,
            reply_schema=replies.ranking(),
        ),
        lambda text: parse_ranking(text, len(pool), budget),
        what="ranking",
        observer=observer,
    )
    return _truncated(patch, budget) if isinstance(ranking, Lost) else _ranked(patch, ranking)


def _pool(edits: Sequence[Item], budget: int, mode: UpdateMode[Item]) -> str:
    lines = "\n".join(mode.pool_line(index, edit) for index, edit in enumerate(edits))
    return library.section(
        f"{mode.noun.capitalize()} pool ({len(edits)} {mode.noun}s)",
        fenced(lines),
        f"Select at most {budget} {mode.noun}s.",
    )


def _ranked(patch: Patch[Item], ranking: Ranking) -> Selected[Item]:
    edits = tuple(patch.edits[index] for index in ranking.indices)
    note = f"[optimizer-ranked: selected {len(edits)}/{len(patch.edits)}] {ranking.reasoning}"
    return Selected(_noted(patch, edits, note), "ranked")


def _truncated(patch: Patch[Item], budget: int) -> Selected[Item]:
    note = f"[fallback truncated {len(patch.edits)}->{budget}]"
    return Selected(_noted(patch, patch.edits[:budget], note), "truncated")


def _noted(patch: Patch[Item], edits: tuple[Item, ...], note: str) -> Patch[Item]:
    return Patch(edits, f"{patch.reasoning} {note}".strip())

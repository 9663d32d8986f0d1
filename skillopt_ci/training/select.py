"""Select: of a patch with more edits than the budget allows, the model ranks the best."""

from dataclasses import dataclass
from typing import Generic, Literal

from skillopt_ci.messages import fenced
from skillopt_ci.progress import StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.training import replies
from skillopt_ci.training.ask import Lost, ask, optimizer_request
from skillopt_ci.training.modes import Desk, UpdateMode
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
    skill: str, patch: Patch[Item], budget: int | None, *, mode: UpdateMode[Item], desk: Desk
) -> Selected[Item]:
    """Choose at most ``budget`` edits (None: all); nobody is asked when all or none are taken."""
    pool = patch.edits
    if budget is None or len(pool) <= budget:
        return Selected(patch, "untouched")
    ranking: Ranking | Lost | None = None
    if budget > 0:
        desk.observer(StageStarted("select"))
        lines = "\n".join(mode.pool_line(index, edit) for index, edit in enumerate(pool))
        user = library.joined(
            library.meta_skill(desk.meta_skill),
            library.current_skill(skill),
            library.section(
                f"{mode.noun.capitalize()} pool ({len(pool)} {mode.noun}s)",
                fenced(lines),
                f"Select at most {budget} {mode.noun}s.",
            ),
            library.ranked_wishes([n for n, edit in enumerate(pool) if edit.note_ids]),
        )
        name, schema = f"ranking{mode.prompt_suffix}", replies.ranking()
        ranking = await ask(
            desk.client,
            optimizer_request(desk.prompts, name, "ranking", user, reply_schema=schema),
            lambda text: parse_ranking(text, len(pool), budget),
            what="ranking",
            observer=desk.observer,
        )
    if not isinstance(ranking, Ranking):
        note = f"[fallback truncated {len(pool)}->{budget}]"
        return Selected(_noted(patch, pool[:budget], note), "truncated")
    edits = tuple(pool[index] for index in ranking.indices)
    note = f"[optimizer-ranked: selected {len(edits)}/{len(pool)}] {ranking.reasoning}"
    return Selected(_noted(patch, edits, note), "ranked")


def _noted(patch: Patch[Item], edits: tuple[Item, ...], note: str) -> Patch[Item]:
    return Patch(edits, f"{patch.reasoning} {note}".strip())

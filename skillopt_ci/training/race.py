"""Race: which of the proposed edits go into the candidate, by what subsets of them do on tasks.

A candidate of many edits stands or falls as a whole, so that one that harms sinks those that help.
Here many subsets are tried on the same few training tasks, each edit being in half of them: every
attempt says something about every edit. Edits that are unlikely to help drop out after each heat,
those that are sure stay in, and what is left is told apart by the next heat. The selection tasks
are not touched; the gate asks them about the winner alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.config.config import Race
from skillopt_ci.ledger.records import ArmRecord, EffectRecord, HeatRecord, RaceRecord
from skillopt_ci.skill.edits import Edit
from skillopt_ci.stats import Effect, balanced_subsets
from skillopt_ci.training.attribution import Comparison, attribute, compared_in_heat, rules_of

#: Between these probabilities of being helpful an edit is worth another heat.
_OUT, _SURE = 0.2, 0.9

#: Scores by task of each of the documents, in the gate's metric; tasks in error are left out.
Try = Callable[[Sequence[str], Sequence[str]], Awaitable[Sequence[Mapping[str, float]]]]
#: The document with some of the edits, and those that really changed it.
Apply = Callable[[Sequence[int]], tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Field:
    """What is raced: the ``edits``, how documents are made of them, and on which ``tasks``.

    ``past`` is what earlier steps told about rules, ``seed`` deals edits to subsets.
    """

    edits: Sequence[Edit]
    apply: Apply
    tasks: Sequence[str]
    past: Sequence[Comparison]
    seed: int


async def race(field: Field, settings: Race, attempt: Try) -> RaceRecord:
    """Try subsets of the edits and say which of them are worth keeping."""
    rules = [rules_of(edit) for edit in field.edits]
    heats: list[HeatRecord] = []
    for number in range(settings.heats):
        effects = _effects(field, rules, heats)
        undecided = [n for n, one in enumerate(effects) if _OUT <= one.helpful <= _SURE]
        fixed = [n for n, one in enumerate(effects) if one.helpful > _SURE]
        if not undecided:
            break
        chosen = balanced_subsets(len(undecided), settings.arms, field.seed + number)
        subsets = [sorted([*fixed, *(undecided[i] for i in one)]) for one in chosen]
        heats.append(await _heat(field, subsets, _tasks(field, settings, number), attempt))
    effects = _effects(field, rules, heats)
    return RaceRecord(
        heats=tuple(heats),
        effects=tuple(_record(one, one.helpful >= settings.keep) for one in effects),
    )


async def _heat(
    field: Field, subsets: Sequence[Sequence[int]], tasks: Sequence[str], attempt: Try
) -> HeatRecord:
    """Subsets that come to the same document are tried once."""
    made = [field.apply(subset) for subset in subsets]
    documents = dict(made)
    scores = await attempt(list(documents), tasks)
    arms = tuple(
        ArmRecord(edits=applied, scores=dict(found))
        for applied, found in zip(documents.values(), scores, strict=True)
    )
    return HeatRecord(arms=arms, errors=sum(len(tasks) - len(arm.scores) for arm in arms))


def _effects(
    field: Field, rules: Sequence[Mapping[str, float]], heats: Sequence[HeatRecord]
) -> list[Effect]:
    seen = [*field.past, *(one for heat in heats for one in compared_in_heat(heat, rules))]
    known = attribute(seen, (rule for one in rules for rule in one))
    return [known.effect(one) for one in rules]


def _tasks(field: Field, settings: Race, heat: int) -> list[str]:
    """Other tasks in each heat, as long as there are any."""
    size = min(settings.tasks, len(field.tasks))
    start = heat * size % max(1, len(field.tasks))
    return [*field.tasks, *field.tasks][start : start + size]


def _record(effect: Effect, kept: bool) -> EffectRecord:
    return EffectRecord(
        mean=round(effect.mean, 6),
        sd=round(effect.sd, 6),
        helpful=round(effect.helpful, 6),
        kept=kept,
    )

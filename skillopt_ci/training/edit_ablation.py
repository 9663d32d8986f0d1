"""Race: which of the proposed edits go into the candidate, by what subsets of them do on tasks.

A candidate of many edits stands or falls as a whole, so that one that harms sinks those that help.
Here many subsets are tried on the same few training tasks, each edit being in half of them: every
attempt says something about every edit. Edits that are unlikely to help drop out after each heat,
those that are sure stay in, and what is left is told apart by the next heat. The selection tasks
are not touched; the gate asks them about the winner alone.
"""

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from skillopt_ci.aio import map_ordered
from skillopt_ci.config.config import Config, Race
from skillopt_ci.ledger.records import (
    ArmRecord,
    EditRecord,
    EffectRecord,
    GateRecord,
    HeatRecord,
    RaceRecord,
    StepRecord,
)
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.stats import Effect, Observation, balanced_subsets, believe
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import one_line, plural
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.measure import Scores, Tally, worth_in
from skillopt_ci.training.memory import step_records
from skillopt_ci.training.plan import StepPlan
from skillopt_ci.training.replies import Patch
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import Checkout

# Attribution: what single rules do to the score, by all comparisons that were recorded.

#: How far from 0 a rule's effect on the mean score is thought to be before it was tried.
PRIOR_SD = 0.08

#: The variance of a score is never believed to be less, for want of attempts to show it.
_LEAST_VARIANCE = 0.04


def rules_of(edit: Edit | EditRecord) -> dict[str, float]:
    """What an edit brings in and takes out; a rule is called by its text, spacing apart."""
    op, rules = edit.op.strip().lower(), dict[str, float]()
    if op != "delete" and (brought := one_line(edit.content)):
        rules[brought] = 1.0
    if op in ("delete", "replace") and (gone := one_line(edit.target)):
        rules[gone] = rules.get(gone, 0.0) - 1.0
    return rules


def compared_in(records: Iterable[StepRecord]) -> Iterator[Observation]:
    """What the steps' races and verdicts tell."""
    for record in records:
        edits = record.proposal.edits
        if record.proposal.race is not None:
            for heat in record.proposal.race.heats:
                yield from compared_in_heat(heat, list(map(rules_of, edits)))
        decision = record.decision
        if decision is not None and decision.gate is not None and not decision.partial:
            yield from _compared_at_gate(decision.gate, edits)


def compared_in_heat(
    heat: HeatRecord, rules: Sequence[Mapping[str, float]]
) -> Iterator[Observation]:
    """Each subset against the mean of all subsets, on the tasks that both were tried on."""
    arms = [arm for arm in heat.arms if arm.scores]
    if not arms:
        return
    scores = defaultdict[str, list[float]](list)
    for arm in arms:
        for task, score in arm.scores.items():
            scores[task].append(score)
    means = {task: fmean(found) for task, found in scores.items()}
    # the variance of one attempt at a task, whichever subset it was made under
    squares = [(score - means[task]) ** 2 for task, found in scores.items() for score in found]
    noise = math.fsum(squares) / max(1, len(squares) - len(means))
    variance = max(_LEAST_VARIANCE, noise)
    usual = {n: sum(n in arm.edits for arm in arms) / len(arms) for n in range(len(rules))}
    for arm in arms:
        gains = [score - means[task] for task, score in arm.scores.items()]
        present = {n: (n in arm.edits) - share for n, share in usual.items()}
        yield Observation(
            _summed((rules[n], weight) for n, weight in present.items() if weight),
            fmean(gains),
            variance / len(gains),
        )


def _compared_at_gate(gate: GateRecord, edits: Sequence[EditRecord]) -> Iterator[Observation]:
    rules = _summed((rules_of(edit), 1.0) for edit in edits if edit.applied)
    if rules and gate.compared:
        error = gate.standard_error or 0.0
        variance = max(error**2, 2 * _LEAST_VARIANCE / gate.compared)
        yield Observation(rules, gate.difference, variance)


def _summed(parts: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for rules, weight in parts:
        for rule, amount in rules.items():
            total[rule] = total.get(rule, 0.0) + weight * amount
    return total


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
    past: Sequence[Observation]
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
        heats.append(await _heat(field, subsets, _race_tasks(field, settings, number), attempt))
    found = (
        EffectRecord(
            mean=round(one.mean, 6),
            sd=round(one.sd, 6),
            helpful=round(one.helpful, 6),
            kept=one.helpful >= settings.keep,
        )
        for one in _effects(field, rules, heats)
    )
    return RaceRecord(heats=tuple(heats), effects=tuple(found))


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
    known = believe(seen, PRIOR_SD, (rule for one in rules for rule in one))
    return [known.effect(one) for one in rules]


def _race_tasks(field: Field, settings: Race, heat: int) -> list[str]:
    """Other tasks in each heat, as long as there are any."""
    size = min(settings.tasks, len(field.tasks))
    start = heat * size % max(1, len(field.tasks))
    return [*field.tasks, *field.tasks][start : start + size]


# Pruning: rules that did harm, by all that was measured, are put up for removal.

#: Most rules that are put up for removal at once.
_MOST = 4


def removals(
    skill: str, records: Sequence[StepRecord], past: Sequence[Observation], sure: float
) -> tuple[Edit, ...]:
    """Deletions of rules that are harmful with a probability of at least ``sure``, worst first.

    Only texts that an edit of this run brought in are proposed: nothing else was measured alone.
    """
    if sure >= 1:
        return ()
    applied = (edit for one in records for edit in one.proposal.edits if edit.applied)
    brought = {one_line(edit.content): edit.content.strip() for edit in applied}
    known = believe(past, PRIOR_SD)
    doubtful = [
        (effect.helpful, text)
        for rule, text in brought.items()
        if rule and text in skill and rule in known.means
        for effect in (known.effect({rule: 1.0}),)
        if 1 - effect.helpful >= sure
    ]
    return tuple(
        Edit("delete", target=text, source_type="attribution", support_count=0)
        for _, text in sorted(doubtful)[:_MOST]
    )


# Trial: the race of a step's edits, on the step's own training tasks.

STAGE = "race"


def races(config: Config) -> bool:
    """Whether the edits of a step are raced: there are arms for it, and single edits."""
    patches = config.optimizer.skill_update_mode == "patch"
    return patches and config.evaluation.use_gate and config.evaluation.race.arms > 1


def pool_size(config: Config, budget: int | None) -> int | None:
    """How many edits a step may select: the ``budget``, or as many as a race takes."""
    pool = config.evaluation.race.pool
    return pool if races(config) and pool and budget != 0 else budget


async def try_edits(
    run: Run,
    checkout: Checkout,
    plan: StepPlan,
    patch: Patch[Any],
    models: OpenModels,
    chat: OptimizerChat,
) -> tuple[Patch[Any], RaceRecord | None]:
    """The patch with doubtful rules put up for removal, and how its edits fared in a race."""
    if not races(run.config):
        return patch, None
    records = step_records(run, checkout)
    past, settings = list(compared_in(records)), run.config.evaluation.race
    gone = removals(checkout.skill, records, past, settings.prune)
    touched = {edit.target.strip() for edit in patch.edits}
    edits = (*patch.edits, *(one for one in gone if one.target not in touched))
    if not edits:
        return patch, None
    tasks = {task.id: task for batch in plan.batches for task in batch.tasks}

    def apply(chosen: Sequence[int]) -> tuple[str, tuple[int, ...]]:
        text, reports = apply_edits(checkout.skill, [edits[n] for n in chosen], chat.refuse)
        done = [n for n, one in zip(chosen, reports, strict=True) if one.status.applied]
        return text, tuple(done)

    field = Field(edits, apply, list(tasks), past, plan.batches[0].seed)
    found = await race(field, settings, partial(_attempt, run, tasks, models))
    kept = sum(one.kept for one in found.effects)
    run.observer(StageFinished(STAGE, f"{kept} of {plural(len(edits), 'edit')} kept"))
    return Patch(edits, patch.reasoning), found


async def _attempt(
    run: Run,
    known: Mapping[str, Task],
    models: OpenModels,
    skills: Sequence[str],
    names: Sequence[str],
) -> list[Mapping[str, float]]:
    """Roll out the tasks under each of the documents, all at once."""
    evaluation, tasks = run.config.evaluation, [known[name] for name in names]
    worth = worth_in(evaluation)
    run.observer(StageStarted(STAGE, len(skills) * len(names)))

    async def one(skill: str) -> Mapping[str, float]:
        rollouts = await models.runner.roll_out(
            tasks,
            skill,
            stage=STAGE,
            done=lambda one: run.observer(StageAdvanced(STAGE, one.task_id)),
        )
        refuse_too_many_errors(rollouts, evaluation.max_error_rate, STAGE)
        return {
            name: float(worth(Tally(hard, soft)))
            for name, (hard, soft) in Scores(rollouts=rollouts).means().items()
        }

    return await map_ordered(one, skills, limit=max(1, len(skills)))

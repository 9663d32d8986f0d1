"""Measure skills outside of training: any text on any split, two of them pair by pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skillopt_ci.ledger.records import Measurement
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.metrics import (
    OTHER,
    Outcome,
    PairedDifference,
    Summary,
    outcome_of,
    paired,
    summary_of,
)
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.measure import measure
from skillopt_ci.training.session import Session


@dataclass(frozen=True, slots=True)
class NamedSkill:
    """A skill text under the name that the user gave it."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return sha256(self.text)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A skill with its measurement, and all that its attempts amount to."""

    skill: NamedSkill
    measurement: Measurement
    summary: Summary


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One or two skills on the same tasks; ``difference`` is the second minus the first (hard)."""

    split: str
    skills: tuple[Evaluated, ...]
    difference: PairedDifference | None
    usage: Usage
    simulated: bool


async def evaluate(session: Session, skills: Sequence[NamedSkill], split: str) -> Evaluation:
    """Roll out the tasks of ``split`` under each skill; equal texts are measured once."""
    tasks = tasks_of(session, split)
    meter = session.meter(session.clock(), Usage())
    clusters = clusters_of(tasks)
    measured: dict[str, Evaluated] = {}
    async with session.bench("eval", meter) as bench:
        for skill in skills:
            if skill.sha256 not in measured:
                outcomes: list[Outcome] = []
                found = await measure(
                    skill.text,
                    tasks,
                    runner=bench.runner,
                    evaluation=session.config.evaluation,
                    observer=session.observer,
                    stage=split,
                    seen=lambda one, kept=outcomes: kept.append(outcome_of(one)),  # type: ignore[misc]
                )
                due = dict.fromkeys((task.id for task in tasks), bench.runner.attempts)
                summary = summary_of(outcomes, expected=due, clusters=clusters)
                measured[skill.sha256] = Evaluated(skill, found, summary)
    each = tuple(replace(measured[skill.sha256], skill=skill) for skill in skills)
    difference = _difference(each, clusters)
    return Evaluation(split, each, difference, meter.total(), session.simulated)


def tasks_of(session: Session, split: str) -> tuple[Task, ...]:
    """The tasks of a split by its name; ``all`` joins the three."""
    splits = {
        "train": session.splits.train,
        "selection": session.selection,
        "test": session.test,
    }
    return (
        splits[split]
        if split in splits
        else tuple(task for part in splits.values() for task in part)
    )


def by_type(tasks: Sequence[Task], measurement: Measurement) -> dict[str, tuple[float, int]]:
    """Mean hard score and number of measured tasks per task type, ``other`` for those without."""
    groups: dict[str, list[float]] = {}
    for task in tasks:
        if task.id in measurement.tasks:
            groups.setdefault(task.task_type or OTHER, []).append(measurement.tasks[task.id][0])
    return {kind: (sum(hard) / len(hard), len(hard)) for kind, hard in sorted(groups.items())}


def clusters_of(tasks: Sequence[Task]) -> dict[str, str] | None:
    """The cluster of each task, as its metadata names it; None unless all tasks name one."""
    named = {task.id: task.metadata.get("cluster") for task in tasks}
    if any(name is None for name in named.values()):
        return None
    return {task: str(name) for task, name in named.items()}


def _difference(
    found: Sequence[Evaluated], clusters: Mapping[str, str] | None
) -> PairedDifference | None:
    if len(found) < 2:  # noqa: PLR2004 - a comparison takes two
        return None
    one, other = (
        {task: hard for task, (hard, _) in skill.measurement.tasks.items()} for skill in found[:2]
    )
    return paired(one, other, clusters)

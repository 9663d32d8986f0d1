"""The target's attempts that are recorded on this machine."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Literal, NamedTuple

from skillopt_ci.ledger.evidence import ProposalRecord
from skillopt_ci.ledger.records import BoundaryRecord
from skillopt_ci.report.html_charts import TaskGrade
from skillopt_ci.report.view import EventView, RunView
from skillopt_ci.rollout.types import FAILURE_BELOW


class Turn(NamedTuple):
    """One message or action; ``heading`` says whose, ``kind`` selects its style."""

    kind: str
    heading: str
    text: str


class Trajectory(NamedTuple):
    """An attempt under the skill with SHA-256 ``skill``; ``told`` says how it ended."""

    task: str
    stage: str
    attempt: int
    skill: str
    outcome: TaskGrade
    told: str
    turns: tuple[Turn, ...]
    reason: str = ""


class Wish(NamedTuple):
    stage: str
    task: str
    skill: str


#: The last recorded attempt for each wish.
Recorded = Mapping[Wish, Trajectory]


def recorded(attempts: Iterable[Trajectory]) -> Recorded:
    return {Wish(one.stage, one.task, one.skill): one for one in attempts}


#: The most attempts that a section asks for.
WISHES_MOST = 24


def wishes(run: RunView) -> dict[str, tuple[Wish, ...]]:
    """The attempts that each step and epoch's end wants to show, by section, newest first.

    Tasks broken, learned from and fixed take turns, a changed task with the attempt before it; then
    tasks still failing. Test tasks are excluded: reading them and editing is training on them.
    """
    found: dict[str, tuple[Wish, ...]] = {}
    for view in newest(run):
        made, decision = view.made, view.record.decision
        stage, under = "slow_rollout", made.skill_before
        if isinstance(made, ProposalRecord):
            stage, under = "rollout", made.attempted_under
        learned, flips, still = [Wish(stage, task, under) for task in view.failed], [], []
        if decision is not None:
            both = (made.skill_after, made.skill_before)
            flips = [
                [Wish("selection", task, skill) for task in tasks for skill in both]
                for tasks in (decision.broken, decision.fixed)
            ]
            measured = {} if decision.measurement is None else decision.measurement.tasks
            failed = [task for task, (hard, _) in measured.items() if hard < FAILURE_BELOW]
            still = [Wish("selection", task, made.skill_after) for task in failed]
        mixed = chain.from_iterable(zip_longest(*flips[:1], learned, *flips[1:]))
        found[view.anchor] = tuple(dict.fromkeys(filter(None, chain(mixed, still))))[:WISHES_MOST]
    return found


def newest(run: RunView) -> list[EventView]:
    """The steps and ends of epochs that have evidence, newest first."""
    return sorted(
        [*run.views.values(), *filter(None, [run.flight])],
        key=lambda one: (one.record.epoch, isinstance(one.record, BoundaryRecord), one.record.step),
        reverse=True,
    )


# The limited choice of attempts that the report shows, and the links to them.

#: The most attempts and characters shown in all, to keep the page small.
VIEWER_MOST, MOST_CHARACTERS = 240, 400_000

_STAGES = {
    "rollout": "training task",
    "selection": "selection task",
    "slow_rollout": "end-of-epoch training task",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """An attempt; ``section`` is about its skill, ``change`` the verdict's finding for the task."""

    id: str
    attempt: Trajectory
    section: str
    what: str
    made_with: str
    run: str
    change: Literal["broken", "fixed", ""] = ""

    @property
    def trace(self) -> str:
        one = self.attempt
        words = ["skillopt-ci", "trace", one.task, "--run", self.run, "--stage", one.stage]
        numbered = ["--attempt", str(one.attempt), "--skill", one.skill[:12], "--whole"]
        return shlex.join([*words, *numbered])


@dataclass(frozen=True, slots=True)
class Viewer:
    """``left_out`` counts recorded attempts that are not shown.

    By section and task, ``links`` has an attempt's id, ``before`` that of one before the change.
    """

    shown: tuple[Shown, ...] = ()
    left_out: int = 0
    links: Mapping[tuple[str, str], str] = field(default_factory=dict)
    before: Mapping[tuple[str, str], str] = field(default_factory=dict)


def viewer(run: RunView, known: Recorded, count: int = 0) -> Viewer:
    """Choose from the ``known`` attempts: each section's most telling one, then its second, …

    Attempts that changed a task's outcome come first, then the newest; ``count`` are on record.
    """
    asked, views = wishes(run), newest(run)
    order = {section: number for number, section in enumerate(asked)}
    # A text belongs to the oldest section that made it, an attempt to the newest that wants it.
    made = {view.made.skill_after: view.anchor for view in views}
    wished = {wish: section for section, own in reversed(asked.items()) for wish in own}
    decided = {view.anchor: view.record.decision for view in views}

    now, before = dict[tuple[str, str], Trajectory](), dict[tuple[str, str], Trajectory]()
    for section, own in asked.items():
        for wish in own:
            earlier = wish.stage == "selection" and made.get(wish.skill) != section
            if (one := known.get(wish)) is not None:
                (before if earlier else now).setdefault((section, wish.task), one)

    def section_of(one: Trajectory) -> str:
        if one.stage == "selection":
            return made.get(one.skill, "")
        return wished.get(Wish(one.stage, one.task, one.skill), "")

    def change_of(one: Trajectory) -> Literal["broken", "fixed", ""]:
        decision = decided.get(section_of(one))
        if one.stage != "selection" or decision is None:
            return ""
        if one.task in decision.broken:
            return "broken"
        return "fixed" if one.task in decision.fixed else ""

    def place(one: Trajectory) -> tuple[int, int, str, str]:
        rank = ("broken", "fixed", "").index(change_of(one))
        return rank, order.get(section_of(one), len(order)), one.stage, one.task

    skills = {skill: f"the skill of {section_name(section)}" for skill, section in made.items()}
    if run.history:
        skills[run.history[0].skill_sha256] = "the skill at the start"

    def shown(one: Trajectory, name: str) -> Shown:
        what, skill = _STAGES.get(one.stage, one.stage), skills.get(one.skill, "an earlier skill")
        return Shown(name, one, section_of(one), what, skill, run.state.run, change_of(one))

    rounds = zip_longest(*(filter(None, map(known.get, own)) for own in asked.values()))
    chosen = sorted(_within_bounds(filter(None, chain.from_iterable(rounds))), key=place)
    names = {one: f"attempt-{number}" for number, one in enumerate(chosen, start=1)}
    links, earlier_ones = (
        {key: names[one] for key, one in found.items() if one in names} for found in (now, before)
    )
    left_out = max(count, len(known)) - len(names)
    return Viewer(tuple(shown(*one) for one in names.items()), left_out, links, earlier_ones)


def section_name(anchor: str) -> str:
    kind, _, number = anchor.partition("-")
    return f"the end of epoch {number}" if kind == "epoch" else f"{kind} {number}"


def _within_bounds(attempts: Iterator[Trajectory]) -> Iterator[Trajectory]:
    taken, size = set[Trajectory](), 0
    for one in attempts:
        if one in taken:
            continue
        size += sum(len(turn.text) for turn in one.turns)
        if len(taken) == VIEWER_MOST or size > MOST_CHARACTERS:
            return
        taken.add(one)
        yield one

"""The target's attempts that are recorded on this machine."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import NamedTuple

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


class Wish(NamedTuple):
    stage: str
    task: str
    skill: str


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

    @property
    def wish(self) -> Wish:
        return Wish(self.stage, self.task, self.skill)


#: A recorded attempt for each wish.
Recorded = Mapping[Wish, Trajectory]
#: The outcomes of the attempts at a changed task; the last one shows the change best.
_TELLING: Mapping[str, Sequence[TaskGrade]] = {
    "broken": ("unknown", "solved", "partial", "failed"),
    "fixed": ("unknown", "failed", "partial", "solved"),
}


def recorded(run: RunView, attempts: Iterable[Trajectory]) -> Recorded:
    """The last attempt for each wish; at a task that changed, the last that shows it best."""
    changed, found = changes(run), dict[Wish, Trajectory]()
    for one in attempts:
        kept, order = found.setdefault(one.wish, one), _TELLING.get(changed.get(one.wish, ""), ())
        again = kept.attempt == one.attempt  # an attempt's last record counts
        if again or not order or order.index(one.outcome) >= order.index(kept.outcome):
            found[one.wish] = one
    return found


def changes(run: RunView) -> dict[Wish, str]:
    """The verdict's finding for each task that changed, by the attempt that was made after it."""
    # a text belongs to the oldest section that made it
    decided = {view.made.skill_after: view.record.decision for view in newest(run)}
    return {
        Wish("selection", task, skill): change
        for skill, decision in decided.items()
        for change in _TELLING
        for task in getattr(decision, change, ())  # a candidate in flight has no decision
    }


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
    change: str = ""

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
    asked, changed = wishes(run), changes(run)
    order = {section: number for number, section in enumerate(asked)}
    # A text belongs to the oldest section that made it, an attempt to the newest that wants it.
    made = {view.made.skill_after: view.anchor for view in newest(run)}
    wished = {wish: section for section, own in reversed(asked.items()) for wish in own}

    def section_of(one: Trajectory) -> str:
        return made.get(one.skill, "") if one.stage == "selection" else wished.get(one.wish, "")

    def place(one: Trajectory) -> tuple[int, int, str, str]:
        rank = ("broken", "fixed", "").index(changed.get(one.wish, ""))
        return rank, order.get(section_of(one), len(order)), one.stage, one.task

    skills = {skill: f"the skill of {section_name(section)}" for skill, section in made.items()}
    skills |= {one.skill_sha256: "the skill at the start" for one in run.history[:1]}

    def shown(one: Trajectory, name: str) -> Shown:
        what, skill = _STAGES.get(one.stage, one.stage), skills.get(one.skill, "an earlier skill")
        change = changed.get(one.wish, "")
        return Shown(name, one, section_of(one), what, skill, run.state.run, change)

    rounds = zip_longest(*(filter(None, map(known.get, own)) for own in asked.values()))
    chosen = sorted(_within_bounds(filter(None, chain.from_iterable(rounds))), key=place)
    names = {one: f"attempt-{number}" for number, one in enumerate(chosen, start=1)}
    links, before = dict[tuple[str, str], str](), dict[tuple[str, str], str]()
    for section, own in asked.items():
        for wish in own:
            earlier = wish.stage == "selection" and made.get(wish.skill) != section
            if (one := known.get(wish)) in names:
                (before if earlier else links).setdefault((section, wish.task), names[one])
    left_out = max(count, len(known)) - len(names)
    return Viewer(tuple(shown(*one) for one in names.items()), left_out, links, before)


def section_name(anchor: str) -> str:
    kind, _, number = anchor.partition("-")
    return f"the end of epoch {number}" if kind == "epoch" else f"{kind} {number}"


def _within_bounds(attempts: Iterable[Trajectory]) -> Iterator[Trajectory]:
    size = 0
    for one in islice(dict.fromkeys(attempts), VIEWER_MOST):
        size += sum(len(turn.text) for turn in one.turns)
        if size > MOST_CHARACTERS:
            return
        yield one

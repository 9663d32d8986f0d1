"""What the target did, as far as this machine remembers it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import NamedTuple

from skillopt_ci.ledger.records import BoundaryRecord, Decision, ProposalRecord, StepRecord
from skillopt_ci.report.html_charts import Column, Outcome, Row
from skillopt_ci.report.view import RunView, event_view
from skillopt_ci.rollout.types import FAILURE_BELOW


class Turn(NamedTuple):
    """One thing that was said or done; ``heading`` says by whom, ``kind`` how it is set."""

    kind: str
    heading: str
    text: str


class Trajectory(NamedTuple):
    """One attempt at a task with the skill of that SHA-256; ``outcome`` says how it ended.

    ``solved`` is None where nothing was measured.
    """

    task: str
    stage: str
    attempt: int
    skill: str
    outcome: str
    solved: bool | None
    turns: tuple[Turn, ...]

    @property
    def size(self) -> int:
        return sum(len(turn.text) for turn in self.turns)


class Wish(NamedTuple):
    """An attempt that a section of the report would like to show, by what it should be like."""

    stage: str
    task: str
    skill: str
    solved: bool | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The attempts that are on record here: the last one of each kind, and how many in all."""

    attempts: Mapping[Wish, Trajectory] = field(default_factory=dict)
    count: int = 0

    def find(self, wish: Wish) -> Trajectory | None:
        """The attempt that fits best: one with the other outcome rather than none."""
        wanted = (wish._replace(solved=one) for one in (wish.solved, not wish.solved, None))
        return next(filter(None, map(self.attempts.get, wanted)), None)


def recorded(attempts: Iterator[Trajectory], count: int = 0) -> Recorded:
    """Keep the last attempt of each stage, task, skill and outcome."""
    kept = {Wish(one.stage, one.task, one.skill, one.solved): one for one in attempts}
    return Recorded(kept, max(count, len(kept)))


# Which attempts tell most of a step: what it broke, what it learned from, what it fixed.

#: A section asks for so many attempts at most.
WISHES_MOST = 24


def wishes(run: RunView) -> dict[str, tuple[Wish, ...]]:
    """The wishes of each step and each epoch's end, most telling first, by its section.

    The newest come first. Attempts at test tasks are never among them: whoever reads those and
    edits the skill has trained on them.
    """
    found: dict[str, tuple[Wish, ...]] = {}
    made: ProposalRecord | BoundaryRecord
    records: list[StepRecord | BoundaryRecord] = [*run.steps, *run.epochs]
    for record in sorted(records, key=_moment, reverse=True):
        if isinstance(record, BoundaryRecord):
            made, stage, under = record, "slow_rollout", record.skill_before
        else:
            made, stage, under = record.proposal, "rollout", record.proposal.attempted_under
        view, before = event_view(record), made.skill_before
        failed = [Wish(stage, task, under, solved=False) for task in view.failed]
        found[view.anchor] = _in_turn(failed, record.decision, before, made.skill_after)
    return found


def _moment(record: StepRecord | BoundaryRecord) -> tuple[int, bool, int]:
    return record.epoch, isinstance(record, BoundaryRecord), record.step


def _in_turn(
    failed: Sequence[Wish], decision: Decision | None, before: str, after: str
) -> tuple[Wish, ...]:
    """What was broken, learned from and fixed in turn, each change with the attempt before it."""
    if decision is None:
        return tuple(failed[:WISHES_MOST])
    broken, fixed = (
        [
            Wish("selection", task, skill, solved=then)
            for task in tasks
            for skill, then in ((after, solved), (before, not solved))
        ]
        for tasks, solved in ((decision.broken, False), (decision.fixed, True))
    )
    measured = {} if decision.measurement is None else decision.measurement.tasks
    open_still = [
        Wish("selection", task, after, solved=False)
        for task, (hard, _) in measured.items()
        if hard < FAILURE_BELOW and task not in decision.broken
    ]
    mixed = chain.from_iterable(zip_longest(broken, failed, fixed))
    return tuple(dict.fromkeys(filter(None, chain(mixed, open_still))))[:WISHES_MOST]


# The attempts that the report shows: a choice in bounds, and where they are linked from.

#: So many attempts are shown, of so many characters in all: the page has to stay small.
VIEWER_MOST, MOST_CHARACTERS = 240, 400_000

_STAGES = {
    "rollout": "training task",
    "selection": "selection task",
    "slow_rollout": "end-of-epoch training task",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """An attempt on the page: ``section`` is where the skill that it was made with is told of."""

    id: str
    attempt: Trajectory
    section: str
    what: str
    made_with: str

    @property
    def trace(self) -> str:
        """The command that shows the attempt in full, where it is on record."""
        one = self.attempt
        words = ["skillopt-ci", "trace", one.task, "--stage", one.stage]
        numbered = ["--attempt", str(one.attempt), "--skill", one.skill[:12], "--whole"]
        return shlex.join([*words, *numbered])

    @property
    def kind(self) -> Outcome:
        if self.attempt.solved is None:
            return "unknown"
        if self.attempt.solved:
            return "solved"
        return "failed" if self.attempt.outcome == "failed" else "partial"


@dataclass(frozen=True, slots=True)
class Viewer:
    """``left_out`` counts what is recorded and not shown.

    ``links`` has the id of the attempt that a section links to for a task, ``before`` that of the
    attempt at it before the section's change.
    """

    shown: tuple[Shown, ...] = ()
    left_out: int = 0
    links: Mapping[tuple[str, str], str] = field(default_factory=dict)
    before: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def cells(self, columns: Sequence[Column], rows: Sequence[Row]) -> dict[str, str]:
        """The ids of attempts by ``row,column`` of the outcome map."""
        return {
            f"{y},{x}": found
            for x, column in enumerate(columns)
            for y, row in enumerate(rows)
            if (found := self.links.get((column.anchor, row.task)))
        }


def viewer(run: RunView, known: Recorded) -> Viewer:
    """Choose from what is recorded: each section its most telling attempt, then its second, …"""
    asked = wishes(run)
    order = {section: number for number, section in enumerate(asked)}
    # the first to make a text counts, and the newest to wish for an attempt
    made = {one.skill_after: f"epoch-{one.epoch}" for one in reversed(run.epochs)}
    made |= {one.proposal.skill_after: f"step-{one.step}" for one in reversed(run.steps)}
    wished = {
        (wish.stage, wish.task, wish.skill): section
        for section, own in reversed(asked.items())
        for wish in own
    }

    def section_of(one: Trajectory) -> str:
        if one.stage == "selection":
            return made.get(one.skill, "")
        return wished.get((one.stage, one.task, one.skill), "")

    def place(one: Trajectory) -> tuple[int, str, str]:
        return order.get(section_of(one), len(order)), one.stage, one.task

    rounds = zip_longest(*(filter(None, map(known.find, own)) for own in asked.values()))
    chosen = sorted(_within_bounds(filter(None, chain.from_iterable(rounds))), key=place)
    names = {one: f"attempt-{number}" for number, one in enumerate(chosen, start=1)}
    now, before = dict[tuple[str, str], str](), dict[tuple[str, str], str]()
    for section, own in asked.items():
        for wish in own:
            found = known.find(wish)
            if found is not None and found in names:
                earlier = wish.stage == "selection" and made.get(wish.skill) != section
                (before if earlier else now).setdefault((section, wish.task), names[found])
    first = run.history[0].skill_sha256 if run.history else ""
    shown = []
    for one, name in names.items():
        made_with = "an earlier skill"
        if one.skill == first:
            made_with = "the skill at the start"
        elif one.skill in made:
            made_with = f"the skill of {section_name(made[one.skill])}"
        what = _STAGES.get(one.stage, one.stage)
        shown.append(Shown(name, one, section_of(one), what, made_with))
    return Viewer(tuple(shown), known.count - len(shown), now, before)


def section_name(anchor: str) -> str:
    """``step 3`` for ``step-3``, ``the end of epoch 2`` for ``epoch-2``."""
    kind, _, number = anchor.partition("-")
    return f"the end of epoch {number}" if kind == "epoch" else f"{kind} {number}"


def _within_bounds(attempts: Iterator[Trajectory]) -> Iterator[Trajectory]:
    taken, size = set[Trajectory](), 0
    for one in attempts:
        if one in taken:
            continue
        size += one.size
        if len(taken) == VIEWER_MOST or size > MOST_CHARACTERS:
            return
        taken.add(one)
        yield one

"""What the target did, as far as this machine remembers it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said or done.

    ``kind`` is ``system``, ``user``, ``model``, ``tool``, ``result`` or ``outcome``; ``heading``
    says who or what it was in words.
    """

    kind: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at a task; ``outcome`` says in words how it ended.

    ``skill`` is the SHA-256 of the text that it was made with; ``solved`` is None where nothing
    was measured.
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
        """Characters that it takes up."""
        return sum(len(turn.text) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Wish:
    """An attempt that a section of the report would like to show, by what it should be like."""

    stage: str
    task: str
    skill: str
    solved: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """The attempts that are on record here: the last one of each kind, and how many in all."""

    attempts: Mapping[tuple[str, str, str, bool | None], Trajectory] = field(default_factory=dict)
    count: int = 0

    def find(self, wish: Wish) -> Trajectory | None:
        """The attempt that fits best: one with the other outcome rather than none."""
        place = wish.stage, wish.task, wish.skill
        found = (
            self.attempts.get((*place, solved)) for solved in (wish.solved, not wish.solved, None)
        )
        return next(filter(None, found), None)


def recorded(attempts: Iterator[Trajectory], count: int = 0) -> Recorded:
    """Keep the last attempt of each stage, task, skill and outcome."""
    kept = {(one.stage, one.task, one.skill, one.solved): one for one in attempts}
    return Recorded(kept, max(count, len(kept)))

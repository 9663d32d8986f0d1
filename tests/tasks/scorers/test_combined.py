import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.scorers import AllScorer, AnyScorer, ExactScorer
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.build import Combined, combined
from skillopt_ci.tasks.task import Task

Grade = Callable[..., Score]
PARTS = (ExactScorer(type="exact"),)
ALL, ANY = AllScorer(type="all", of=PARTS), AnyScorer(type="any", of=PARTS)
SCORES = st.lists(
    st.builds(Score, st.sampled_from([0.0, 1.0]), st.floats(0, 1), st.text(), st.just("")),
    min_size=1,
)
RIGHT = {"type": "contains", "contains": ["yes"]}
HALF = {"type": "contains", "contains": ["yes", "no"]}
WRONG = {"type": "exact"}


@dataclass(frozen=True)
class Waits:
    """A part that is done when both parts have started."""

    barrier: asyncio.Barrier

    async def score(self, task: Task, response: str) -> Score:
        await self.barrier.wait()
        return Score(1, 1, "met", response)


@dataclass(frozen=True)
class Fails:
    async def score(self, task: Task, response: str) -> Score:
        raise GraderError("broken")


@dataclass(frozen=True)
class Hangs:
    cancelled: list[bool] = field(default_factory=list)

    async def score(self, task: Task, response: str) -> Score:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.append(True)
        raise AssertionError


@given(SCORES)
def test_all_and_any_stay_within_the_bounds_of_their_parts(scores: list[Score]):
    softs = [score.soft for score in scores]
    all_of, any_of = combined(ALL, scores), combined(ANY, scores)
    assert min(softs) - 1e-12 <= all_of.soft <= any_of.soft + 1e-12
    assert all_of.hard == min(score.hard for score in scores)
    assert any_of.hard == max(score.hard for score in scores)


@pytest.mark.parametrize(
    ("kind", "parts", "hard", "soft"),
    [
        ("all", [RIGHT, RIGHT], 1, 1),
        ("all", [RIGHT, HALF], 0, 0.75),
        ("any", [WRONG, RIGHT], 1, 1),
        ("any", [WRONG, HALF], 0, 0.5),
    ],
)
def test_combination(grade: Grade, kind: str, parts: list[object], hard: float, soft: float):
    score = grade(kind, "oh yes", "reference", of=parts)
    assert (score.hard, score.soft) == (hard, soft)


@pytest.mark.parametrize(("hard_at", "hard"), [(0.7, 1), (0.8, 0)])
def test_weighted(grade: Grade, hard_at: float, hard: float):
    parts = {"of": [RIGHT, WRONG], "weights": [0.7, 0.3], "hard_at": hard_at}
    score = grade("weighted", "yes", "reference", **parts)
    assert (score.hard, score.soft) == (hard, pytest.approx(0.7))


def test_reason_is_that_of_the_parts_that_failed(grade: Grade):
    score = grade("all", "yes", "ref", of=[RIGHT, WRONG, {"type": "regex", "pattern": "z"}])
    assert score.reason == "expected 'ref', got 'yes'; nothing matches 'z'"


def test_combinations_nest(grade: Grade):
    inner = {"type": "any", "of": [WRONG, RIGHT]}
    assert grade("all", "yes", "reference", of=[inner, RIGHT]).hard == 1


def test_parts_are_graded_at_the_same_time(make_task: Callable[..., Task]):
    async def run() -> Score:
        barrier = asyncio.Barrier(2)
        both = Combined(ALL, (Waits(barrier), Waits(barrier)))
        return await asyncio.wait_for(both.score(make_task(), "x"), 10)

    assert asyncio.run(run()).hard == 1


def test_failing_grader_stops_the_others_and_is_reported_itself(make_task: Callable[..., Task]):
    hanging = Hangs()
    with pytest.raises(GraderError, match="broken"):
        asyncio.run(Combined(ALL, (hanging, Fails())).score(make_task(), "x"))
    assert hanging.cancelled == [True]


def test_failing_grader_inside_a_combination_is_reported_itself(make_task: Callable[..., Task]):
    nested = Combined(ALL, (Combined(ANY, (Fails(),)),))
    with pytest.raises(GraderError, match="broken"):
        asyncio.run(nested.score(make_task(), "x"))

"""A race tells edits that help from those that harm, and tries no document twice."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.config.config import Race
from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.training.edit_ablation import Comparison, Field, race

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillopt_ci.ledger.records import RaceRecord

EFFECTS = {"Help much.": 0.3, "Help.": 0.15, "Nothing.": 0.0, "Harm.": -0.2, "Harm too.": -0.2}
TASKS = [f"t{number}" for number in range(20)]


class Tasks:
    """Solved by dice, more often the more helpful the lines of the document are."""

    def __init__(self, effects: Mapping[str, float], lost: Callable[[str], bool]) -> None:
        self.effects, self.lost = effects, lost
        self.dice = random.Random(1)
        self.tried: list[tuple[str, str]] = []

    async def __call__(self, skills: Sequence[str], names: Sequence[str]) -> list[dict[str, float]]:
        self.tried += [(skill, name) for skill in skills for name in names]
        return [
            {name: self._score(skill) for name in names if not self.lost(name)} for skill in skills
        ]

    def _score(self, skill: str) -> float:
        gain = sum(effect for line, effect in self.effects.items() if line in skill.splitlines())
        return float(self.dice.random() < 0.5 + gain)


def raced(
    settings: Race,
    effects: Mapping[str, float] = EFFECTS,
    past: Sequence[Comparison] = (),
    lost: Callable[[str], bool] = lambda name: False,
) -> tuple[RaceRecord, Tasks]:
    edits = [Edit("append", content=line) for line in effects]

    def apply(chosen: Sequence[int]) -> tuple[str, tuple[int, ...]]:
        text, _ = apply_edits("# S\n", [edits[n] for n in chosen])
        return text, tuple(chosen)

    tasks = Tasks(effects, lost)
    return asyncio.run(race(Field(edits, apply, TASKS, past, 7), settings, tasks)), tasks


def kept(record: RaceRecord) -> list[bool]:
    return [effect.kept for effect in record.effects]


def test_edits_that_help_stay_and_those_that_harm_go() -> None:
    record, _ = raced(Race(arms=16, tasks=20, heats=2))
    helped = kept(record)
    assert (helped[:2], helped[3:]) == ([True, True], [False, False])
    means = [effect.mean for effect in record.effects]
    assert sorted(means, reverse=True)[:2] == means[:2]


def test_heats_use_other_tasks_and_subsets_are_tried_on_the_same_ones() -> None:
    record, tasks = raced(Race(arms=8, tasks=5, heats=2))
    used = [{name for arm in heat.arms for name in arm.scores} for heat in record.heats]
    assert used == [set(TASKS[:5]), set(TASKS[5:10])]
    assert all(
        set(arm.scores) == names
        for heat, names in zip(record.heats, used, strict=True)
        for arm in heat.arms
    )
    assert record.attempts == len(tasks.tried)


def test_no_document_is_tried_twice_on_a_task() -> None:
    _, tasks = raced(Race(arms=16, tasks=4, heats=1), dict.fromkeys(("One.", "One. "), 0.1))
    assert len(set(tasks.tried)) == len(tasks.tried)


def test_edits_that_are_decided_by_the_past_cost_nothing() -> None:
    past = [
        Comparison({"Help much.": 1.0}, 0.5, 0.0001),
        Comparison({"Harm.": 1.0}, -0.5, 0.0001),
    ]
    record, tasks = raced(Race(arms=8, tasks=4), {"Help much.": 0.3, "Harm.": -0.2}, past)
    assert (kept(record), tasks.tried, record.attempts) == ([True, False], [], 0)


def test_decided_edits_leave_the_next_heat() -> None:
    record, _ = raced(Race(arms=16, tasks=20, heats=3), {"Help much.": 0.45, "Harm.": -0.45})
    assert len(record.heats) == 1
    assert kept(record) == [True, False]


@pytest.mark.parametrize("keep", [0.0, 0.999999])
def test_how_sure_one_must_be_is_configured(keep: float) -> None:
    record, _ = raced(Race(arms=8, tasks=3, heats=1, keep=keep))
    assert kept(record) == [keep == 0.0] * len(EFFECTS)


def test_errors_are_counted_and_are_no_evidence() -> None:
    record, _ = raced(Race(arms=8, tasks=4, heats=1), lost=lambda name: name == "t2")
    (heat,) = record.heats
    assert heat.errors == len(heat.arms)
    assert all("t2" not in arm.scores for arm in heat.arms)
    assert record.attempts == 4 * len(heat.arms)


def test_where_all_ends_in_errors_nothing_is_believed() -> None:
    record, _ = raced(Race(arms=8, tasks=4, heats=1), lost=lambda name: True)
    assert {effect.mean for effect in record.effects} == {0.0}

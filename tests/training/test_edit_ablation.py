"""A race tells edits that help from those that harm, and tries no document twice."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.config.config import Race
from skillopt_ci.ledger.records import (
    ArmRecord,
    Decision,
    EditRecord,
    EffectRecord,
    GateRecord,
    HeatRecord,
    Measurement,
    ProposalRecord,
    RaceRecord,
    RolloutRecord,
    StepRecord,
)
from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.stats import Observation, believe
from skillopt_ci.training.edit_ablation import (
    PRIOR_SD,
    Field,
    compared_in,
    compared_in_heat,
    race,
    removals,
    rules_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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
    past: Sequence[Observation] = (),
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
        Observation({"Help much.": 1.0}, 0.5, 0.0001),
        Observation({"Harm.": 1.0}, -0.5, 0.0001),
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


# Rules are held responsible for what they did, in races and at the gate.

GOOD, BAD = "Sign every page.", "Skip the totals."
MEASURED = Measurement(hard=0.5, soft=0.5, score=0.5, tasks={"a": (1.0, 1.0)})


def edit(
    content: str, op: str = "append", target: str = "", status: str = "applied_append"
) -> EditRecord:
    return EditRecord(op=op, target=target, content=content, status=status)


def step(
    *edits: EditRecord, difference: float = 0.0, race: RaceRecord | None = None, planned: int = 0
) -> StepRecord:
    """A step whose candidate made the given difference on 100 tasks."""
    proposal = ProposalRecord(
        rollout=RolloutRecord(hard=0, soft=0, n=0, errors=0),
        n_failure_patches=1,
        n_success_patches=0,
        n_edits_merged=len(edits),
        edit_budget=4,
        selection="untouched",
        edits=edits,
        race=race,
        skill_before="a",
        skill_after="b",
        config_sha256="",
    )
    decision = Decision(
        action="accept",
        reason="",
        metric="hard",
        score_before=0.0,
        score_after=0.0,
        measurement=MEASURED.model_copy(update={"planned": planned}),
        gate=GateRecord(policy="strict", planned=100, compared=100, difference=difference),
    )
    return StepRecord(
        step=1, epoch=1, step_in_epoch=1, simulated=True, proposal=proposal, decision=decision
    )


@pytest.mark.parametrize(
    ("edit", "rules"),
    [
        (Edit("append", content="- A  rule.\n"), {"- A rule.": 1.0}),
        (Edit("insert_after", target="x", content="A"), {"A": 1.0}),
        (Edit("replace", target="A", content="B"), {"A": -1.0, "B": 1.0}),
        (Edit("replace", target="A", content=""), {"A": -1.0}),
        (Edit("Delete ", target="A", content="ignored"), {"A": -1.0}),
    ],
)
def test_an_edit_brings_rules_in_and_takes_them_out(edit: Edit, rules: dict[str, float]) -> None:
    assert rules_of(edit) == rules


def test_a_candidate_tells_of_the_sum_of_its_edits() -> None:
    (found,) = compared_in([step(edit(GOOD), edit(BAD), edit("x", status="skipped_race"))])
    assert found.weights == {GOOD: 1.0, BAD: 1.0}


def test_a_partial_score_tells_nothing() -> None:
    assert list(compared_in([step(edit(GOOD), difference=-0.3, planned=40)])) == []


def test_a_heat_compares_each_subset_with_the_mean_of_all() -> None:
    arms = (
        ArmRecord(edits=(0,), scores={"a": 1.0, "b": 1.0}),
        ArmRecord(edits=(), scores={"a": 0.0, "b": 1.0}),
    )
    one, other = compared_in_heat(HeatRecord(arms=arms), [{GOOD: 1.0}])
    assert (one.weights, one.value) == ({GOOD: 0.5}, 0.25)
    assert (other.weights, other.value) == ({GOOD: -0.5}, -0.25)


def test_a_subset_is_compared_on_the_tasks_that_it_was_measured_on() -> None:
    arms = (
        ArmRecord(edits=(0,), scores={"hard": 0.0}),
        ArmRecord(edits=(), scores={"hard": 0.0, "easy": 1.0}),
    )
    found = list(compared_in_heat(HeatRecord(arms=arms), [{GOOD: 1.0}]))
    assert [one.value for one in found] == [0.0, 0.0]


def test_steps_that_disagree_on_a_bundle_single_out_the_culprit() -> None:
    records = [
        step(edit(GOOD), edit(BAD), difference=0.0),
        step(edit(GOOD), difference=0.2),
        step(edit("Other."), edit(BAD), difference=-0.2),
    ]
    known = believe(list(compared_in(records)), PRIOR_SD)
    good, bad = known.effect({GOOD: 1.0}), known.effect({BAD: 1.0})
    assert good.mean > 0.03 > -0.03 > bad.mean
    assert good.helpful > 0.75
    assert bad.helpful < 0.25


def test_what_was_never_tried_is_anybodys_guess() -> None:
    assert believe([], PRIOR_SD, [GOOD]).effect({GOOD: 1.0}).helpful == 0.5


def race_record(dice: random.Random) -> RaceRecord:
    """Subsets of GOOD (+0.2) and BAD (-0.2)."""
    arms = []
    for chosen in ((), (0,), (1,), (0, 1)) * 2:
        rate = 0.5 + 0.2 * (0 in chosen) - 0.2 * (1 in chosen)
        scores = {f"t{n}": float(dice.random() < rate) for n in range(60)}
        arms.append(ArmRecord(edits=chosen, scores=scores))
    effect = EffectRecord(mean=0, sd=1, helpful=0.5, kept=True)
    return RaceRecord(heats=(HeatRecord(arms=tuple(arms)),), effects=(effect, effect))


def test_a_harmful_rule_of_the_document_is_put_up_for_removal() -> None:
    records = [step(edit(f"- {GOOD}"), edit(f"- {BAD}"), race=race_record(random.Random(2)))]
    past = list(compared_in(records))
    skill = f"# S\n\n- {GOOD}\n\n- {BAD}\n"
    (found,) = removals(skill, records, past, 0.8)
    assert (found.op, found.target, found.source_type) == ("delete", f"- {BAD}", "attribution")
    assert removals("# S\n", records, past, 0.8) == ()
    assert removals(skill, records, past, 1.0) == ()


def test_text_that_no_edit_brought_in_is_left_alone() -> None:
    records = [step(edit("", "delete", BAD, "applied_delete"), difference=0.5)]
    assert removals(f"# S\n\n{BAD}\n", records, list(compared_in(records)), 0.5) == ()

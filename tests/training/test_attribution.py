"""Rules are held responsible for what they did, in races and at the gate."""

from __future__ import annotations

import random

import pytest

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
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.edit_ablation import (
    attribute,
    compared_in,
    compared_in_heat,
    removals,
    rules_of,
)

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
    assert found.rules == {GOOD: 1.0, BAD: 1.0}


def test_a_partial_score_tells_nothing() -> None:
    assert list(compared_in([step(edit(GOOD), difference=-0.3, planned=40)])) == []


def test_a_heat_compares_each_subset_with_the_mean_of_all() -> None:
    arms = (
        ArmRecord(edits=(0,), scores={"a": 1.0, "b": 1.0}),
        ArmRecord(edits=(), scores={"a": 0.0, "b": 1.0}),
    )
    one, other = compared_in_heat(HeatRecord(arms=arms), [{GOOD: 1.0}])
    assert (one.rules, one.difference) == ({GOOD: 0.5}, 0.25)
    assert (other.rules, other.difference) == ({GOOD: -0.5}, -0.25)


def test_a_subset_is_compared_on_the_tasks_that_it_was_measured_on() -> None:
    arms = (
        ArmRecord(edits=(0,), scores={"hard": 0.0}),
        ArmRecord(edits=(), scores={"hard": 0.0, "easy": 1.0}),
    )
    found = list(compared_in_heat(HeatRecord(arms=arms), [{GOOD: 1.0}]))
    assert [one.difference for one in found] == [0.0, 0.0]


def test_steps_that_disagree_on_a_bundle_single_out_the_culprit() -> None:
    records = [
        step(edit(GOOD), edit(BAD), difference=0.0),
        step(edit(GOOD), difference=0.2),
        step(edit("Other."), edit(BAD), difference=-0.2),
    ]
    known = attribute(list(compared_in(records)))
    good, bad = known.effect({GOOD: 1.0}), known.effect({BAD: 1.0})
    assert good.mean > 0.03 > -0.03 > bad.mean
    assert good.helpful > 0.75
    assert bad.helpful < 0.25


def test_what_was_never_tried_is_anybodys_guess() -> None:
    assert attribute([], [GOOD]).effect({GOOD: 1.0}).helpful == 0.5


def raced(dice: random.Random) -> RaceRecord:
    """Subsets of GOOD (+0.2) and BAD (-0.2)."""
    arms = []
    for chosen in ((), (0,), (1,), (0, 1)) * 2:
        rate = 0.5 + 0.2 * (0 in chosen) - 0.2 * (1 in chosen)
        scores = {f"t{n}": float(dice.random() < rate) for n in range(60)}
        arms.append(ArmRecord(edits=chosen, scores=scores))
    effect = EffectRecord(mean=0, sd=1, helpful=0.5, kept=True)
    return RaceRecord(heats=(HeatRecord(arms=tuple(arms)),), effects=(effect, effect))


def test_a_harmful_rule_of_the_document_is_put_up_for_removal() -> None:
    records = [step(edit(f"- {GOOD}"), edit(f"- {BAD}"), race=raced(random.Random(2)))]
    past = list(compared_in(records))
    skill = f"# S\n\n- {GOOD}\n\n- {BAD}\n"
    (found,) = removals(skill, records, past, 0.8)
    assert (found.op, found.target, found.source_type) == ("delete", f"- {BAD}", "attribution")
    assert removals("# S\n", records, past, 0.8) == ()
    assert removals(skill, records, past, 1.0) == ()


def test_text_that_no_edit_brought_in_is_left_alone() -> None:
    records = [step(edit("", "delete", BAD, "applied_delete"), difference=0.5)]
    assert removals(f"# S\n\n{BAD}\n", records, list(compared_in(records)), 0.5) == ()

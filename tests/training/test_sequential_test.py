"""Tests end as early as they may, and never with another verdict."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.training.calibrate import lifted, rehearse
from skillopt_ci.training.gate import compare
from skillopt_ci.training.measure import Tally, worth_in
from skillopt_ci.training.sequential_test import Answer, Ask, Outcome, Setup, sequential_test

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Policy = Literal["strict", "paired", "sequential"]
Scores = dict[str, float | None]
HARD = Evaluation()

scores = st.sampled_from([0.0, 0.25, 1.0])
outcomes = st.lists(st.tuples(scores, st.none() | scores), min_size=1, max_size=24)


def gate(policy: Policy = "strict", **changes: object) -> GateConfig:
    return GateConfig.model_validate({"policy": policy, "look_every": 3, **changes})


def terms(current: Mapping[str, float], settings: GateConfig, **changes: object) -> Setup:
    values: dict[str, object] = {
        "order": tuple(current),
        "eligible": frozenset(current),
        "rates": dict(current),
        "worth": worth_in(HARD),
        "settings": settings,
    }
    return Setup(**(values | changes))  # type: ignore[arg-type]


def run_test(
    terms: Setup,
    current: Mapping[str, float],
    candidate: Callable[[str, int], float | None],
    again: Callable[[str, int], float | None] = lambda task, number: None,
    known: Mapping[str, Tally] | None = None,
) -> tuple[Outcome, list[Ask]]:
    """Run a test whose attempts come to what the functions say of task and number."""
    asked: list[Ask] = []
    test = sequential_test(
        terms, {task: Tally(one, one) for task, one in current.items()}, known or {}
    )

    def answered(
        lot: tuple[tuple[str, int], ...], source: Callable[[str, int], float | None]
    ) -> dict[str, tuple[float, float]]:
        found = {task: source(task, number) for task, number in lot}
        return {task: (one, one) for task, one in found.items() if one is not None}

    try:
        ask = next(test)
        while True:
            asked.append(ask)
            ask = test.send(
                Answer(answered(ask.candidate, candidate), answered(ask.current, again))
            )
    except StopIteration as done:
        outcome: Outcome = done.value
    return outcome, asked


def attempts(asked: list[Ask]) -> int:
    return sum(len(ask.candidate) + len(ask.current) for ask in asked)


def named(values: list[float]) -> dict[str, float]:
    return {f"t{number}": value for number, value in enumerate(values)}


def side(scores: dict[str, float], density: float) -> Measurement:
    tasks = {task: (one, 0.0) for task, one in scores.items()}
    return Measurement(hard=0, soft=0, score=0, tasks=tasks, density=density)


@given(outcomes, st.sampled_from([-0.3, -0.01, 0.0, 0.01, 0.3]), st.booleans(), st.randoms())
def test_stopping_early_never_changes_a_strict_verdict(
    pairs: list[tuple[float, float | None]], bonus: float, notes: bool, dice: random.Random
) -> None:
    """Any order, any errors: the verdict is that of measuring everything."""
    current = named([before for before, _ in pairs])
    after: Scores = {f"t{number}": found for number, (_, found) in enumerate(pairs)}
    order = list(current)
    dice.shuffle(order)
    weight = Fraction(bonus).limit_denominator(1000)
    about = terms(current, gate(), order=tuple(order), bonus=weight, tie_wins=notes)
    outcome, _ = run_test(about, current, lambda task, _: after[task])
    assert outcome.end in ("measured", "certain")
    measured = [task for task in current if after[task] is not None]
    if outcome.end == "certain" and measured:
        ours = side({task: after[task] or 0.0 for task in measured}, max(bonus, 0.0))
        theirs = side({task: current[task] for task in measured}, max(-bonus, 0.0))
        dense = HARD.model_copy(update={"use_semantic_density": True, "semantic_density_weight": 1})
        whole = compare(ours, theirs, theirs, dense, notes_only=notes)
        assert whole.action == "reject"


def test_a_candidate_that_fixes_nothing_is_given_up_at_the_first_look() -> None:
    current = named([0, 0, 0, 1, 1, 1, 1, 1, 1])
    outcome, asked = run_test(terms(current, gate()), current, lambda *_: 0.0)
    assert (outcome.end, attempts(asked)) == ("certain", 3)


@given(outcomes, st.sampled_from(["strict", "paired", "sequential"]), st.randoms(), st.floats(0, 1))
def test_what_is_begun_ahead_is_asked_next(
    pairs: list[tuple[float, float | None]], policy: Policy, dice: random.Random, share: float
) -> None:
    """Nothing is begun that the verdict does without, whatever is known and whatever is to come."""
    current = named([before for before, _ in pairs])
    after: Scores = {f"t{number}": found for number, (_, found) in enumerate(pairs)}
    again = lambda *_: float(dice.random() < 0.5)  # noqa: E731
    rule = gate(policy, confidence=0.5, look_every=2, futility=0)
    came = {
        task: (one, one) for task, one in after.items() if one is not None and dice.random() < share
    }
    _, asked = run_test(terms(current, rule), current, lambda task, _: after[task], again)
    for number, ask in enumerate(asked):
        sure = ask.sure(came)
        assert sure == tuple(asked[number + 1 : number + 1 + len(sure)])
        assert sure[: len(ask.sure({}))] == ask.sure({})


def test_lots_whose_results_cannot_end_the_test_begin_with_the_first() -> None:
    current = named([0, 0, 0, 0, 0, 1, 1, 1, 1])
    outcome, asked = run_test(terms(current, gate()), current, lambda *_: 0.0)
    # after three failures two gains are still in reach, after six none
    assert [len(ask.sure({})) for ask in asked] == [1, 0]
    assert (outcome.end, attempts(asked)) == ("certain", 6)


def test_a_lot_begins_when_what_came_of_the_one_before_is_enough() -> None:
    current = named([0, 0, 0, 1, 1, 1])
    after = {"t0": 1.0}
    _, asked = run_test(
        terms(current, gate()), current, lambda task, _: after.get(task, current[task])
    )
    assert [[task for task, _ in ask.candidate] for ask in asked] == [
        ["t0", "t1", "t2"],
        ["t3", "t4", "t5"],
    ]
    # without a gain the test would end here; with one it does not, whatever the others come to
    assert asked[0].sure({}) == ()
    assert asked[0].sure({"t1": (0.0, 0.0)}) == ()
    assert asked[0].sure({"t0": (1.0, 1.0)}) == (asked[1],)


def test_all_is_measured_while_a_gain_is_in_reach() -> None:
    current = named([0, 1, 1, 1])
    after = {**current, "t0": 1.0}
    outcome, asked = run_test(terms(current, gate()), current, lambda task, _: after[task])
    assert (outcome.end, attempts(asked)) == ("measured", 4)
    assert outcome.measured.differences(terms(current, gate())) == [1, 0, 0, 0]


def test_without_early_stopping_all_is_measured_at_once() -> None:
    current = named([0, 1, 1, 1, 1])
    _, asked = run_test(terms(current, gate(early_stop=False)), current, lambda *_: 0.0)
    assert [len(ask.candidate) for ask in asked] == [5]


def test_tasks_that_do_not_count_decide_nothing() -> None:
    current = named([0.0, 1.0])
    about = terms(current, gate(), eligible=frozenset({"t1"}))
    outcome, _ = run_test(about, current, lambda *_: 1.0)
    assert outcome.measured.differences(about) == [0]


def test_known_results_take_the_place_of_attempts() -> None:
    current = named([0, 0, 1, 1])
    known = {"t0": Tally(1.0, 1.0), "t3": Tally(0.0, 0.0)}
    outcome, asked = run_test(terms(current, gate()), current, lambda *_: 1.0, known=known)
    assert [task for ask in asked for task, _ in ask.candidate] == ["t1", "t2"]
    assert outcome.measured.candidate["t3"] == Tally(0.0, 0.0)


@settings(deadline=None)
@given(outcomes, st.sampled_from([0.5, 0.8, 0.95]), st.sampled_from([0.0, 0.1]))
def test_a_paired_rejection_is_certain_where_it_says_so(
    pairs: list[tuple[float, float | None]], confidence: float, effect: float
) -> None:
    current = named([before for before, _ in pairs])
    after: Scores = {f"t{number}": found for number, (_, found) in enumerate(pairs)}
    hasty = gate("paired", confidence=confidence, min_effect=effect, futility=0)
    patient = hasty.model_copy(update={"early_stop": False})
    early, asked = run_test(terms(current, hasty), current, lambda task, _: after[task])
    whole, all_asked = run_test(terms(current, patient), current, lambda task, _: after[task])
    assert early.convincing == whole.convincing
    assert attempts(asked) <= attempts(all_asked)


def rates(count: int, seed: int) -> dict[str, float]:
    dice = random.Random(seed)
    return {f"t{number}": dice.choice((0.1, 0.3, 0.5, 0.7, 0.9)) for number in range(count)}


def accepted(policy: GateConfig, gain: float, runs: int = 300) -> tuple[float, float]:
    """How often a candidate better by ``gain`` is accepted, and the attempts that it takes."""
    true, dice = rates(30, 1), random.Random(f"{policy}/{gain}")

    def draw(lift: float) -> Callable[[str, int], float]:
        return lambda task, _: float(dice.random() < min(1.0, true[task] + lift))

    wins, made = 0, 0
    for _ in range(runs):
        current = {task: draw(0.0)(task, 0) for task in true}
        about = terms(current, policy, rates=true)
        outcome, asked = run_test(about, current, draw(gain), draw(0.0))
        wins += outcome.convincing
        made += attempts(asked)
    return wins / runs, made / runs


@pytest.mark.parametrize("policy", ["paired", "sequential"])
@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("futility", [0.0, 0.2])
def test_equal_skills_are_accepted_no_more_often_than_configured(
    policy: Policy, confidence: float, futility: float
) -> None:
    """Whatever is stopped early and however often close tasks are attempted again."""
    rule = gate(policy, confidence=confidence, futility=futility, look_every=8)
    share, _ = accepted(rule, 0.0)
    alpha = 1 - confidence
    assert share <= alpha + 3 * (alpha * (1 - alpha) / 300) ** 0.5


def test_further_attempts_find_more_of_what_is_clearly_better() -> None:
    settings = {"confidence": 0.9, "futility": 0, "look_every": 30}
    once, _ = accepted(gate("paired", **settings), 0.2)
    often, _ = accepted(gate("sequential", attempts=8, **settings), 0.2)
    assert often > once + 0.05


def test_futility_saves_attempts_and_costs_little() -> None:
    patient = gate("paired", confidence=0.8, futility=0.0, look_every=4)
    hasty = patient.model_copy(update={"futility": 0.2})
    (_, long), (_, short) = accepted(patient, -0.1, 60), accepted(hasty, -0.1, 60)
    (found, _), (still, _) = accepted(patient, 0.2), accepted(hasty, 0.2)
    assert short < 0.8 * long
    assert still > found - 0.1


def test_further_rounds_spare_tasks_on_which_all_attempts_agree() -> None:
    current = named([0, 0, 1, 1, 1, 0])
    after = {"t0": 1.0, "t1": 1.0, "t2": 0.0, "t3": 1.0, "t4": 1.0, "t5": 0.0}
    rule = gate("sequential", confidence=0.9, attempts=2, futility=0, early_stop=False)
    outcome, asked = run_test(
        terms(current, rule), current, lambda task, _: after[task], lambda task, _: current[task]
    )
    assert [task for task, _ in asked[1].candidate] == ["t0", "t1", "t2"]
    assert asked[1].candidate == asked[1].current
    assert {number for _, number in asked[1].current} == {1}
    assert (outcome.rounds, outcome.measured.current_attempts) == (2, 3)


def test_a_gain_below_the_least_effect_does_not_count() -> None:
    current = named([0.0] * 6 + [1.0] * 14)
    after = dict.fromkeys(current, 1.0)
    sure = gate("paired", confidence=0.9, early_stop=False)
    enough = sure.model_copy(update={"min_effect": 0.2})
    won, _ = run_test(terms(current, sure), current, lambda task, _: after[task])
    lost, _ = run_test(terms(current, enough), current, lambda task, _: after[task])
    assert (won.convincing, lost.convincing) == (True, False)
    assert won.p_value == 1 / 2**6


SHARES = [0.2, 0.5, 0.8] * 10


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(-1, 1))
def test_lifting_keeps_to_rates(rates: list[float], lift: float) -> None:
    moved = lifted(rates, lift)
    assert all(-1e-9 <= rate <= 1 + 1e-9 for rate in moved)
    mean, before = sum(moved) / len(moved), sum(rates) / len(rates)
    assert mean == pytest.approx(min(1.0, max(0.0, before + lift)), abs=1e-6)


@pytest.mark.parametrize("policy", ["paired", "sequential"])
def test_equal_skills_seldom_win_and_better_ones_often(
    policy: Literal["paired", "sequential"],
) -> None:
    settings = GateConfig(policy=policy, confidence=0.8)
    (same, attempts), (better, _) = (
        rehearse(SHARES, lift, settings, 200, 1) for lift in (0.0, 0.25)
    )
    assert same < 0.28
    assert better > 0.6
    assert attempts < len(SHARES) * 2


def test_the_strict_gate_takes_chance_for_a_gain() -> None:
    accepted, attempts = rehearse(SHARES, 0.0, GateConfig(), 300, 1)
    assert 0.3 < accepted < 0.55
    assert attempts < len(SHARES)


def test_the_seed_decides() -> None:
    assert rehearse(SHARES, 0.1, GateConfig(), 20, 1) == rehearse(SHARES, 0.1, GateConfig(), 20, 1)

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.settings.config import Evaluation
from skillopt_ci.training.gate import Verdict, decide, gate_score

HARD = Evaluation(gate_metric="hard")
SOFT = Evaluation(gate_metric="soft")

shares = st.integers(1, 60).flatmap(
    lambda parts: st.integers(0, parts).map(lambda right: right / parts)
)


def soft(*scores: float) -> list[tuple[float, float]]:
    return [(0.0, score) for score in scores]


def judged(candidate: list[float], current: list[float], best: list[float]) -> Verdict:
    return decide(soft(*candidate), soft(*current), soft(*best), evaluation=SOFT)


def test_metrics_pick_or_mix_the_means() -> None:
    assert gate_score(0.25, 0.75, "hard", 0.5) == 0.25
    assert gate_score(0.25, 0.75, "soft", 0.5) == 0.75
    assert gate_score(0.25, 0.75, "mixed", 0.25) == 0.375


def test_above_both_is_a_new_best() -> None:
    assert judged([1, 1], [1, 0], [1, 0]).action == "accept_new_best"


def test_above_current_only_is_accepted() -> None:
    assert judged([1, 0], [0, 0], [1, 0]).action == "accept"


@pytest.mark.parametrize("candidate", [[0.0, 0.0], [1.0, 0.0]])
def test_below_or_the_same_is_rejected(candidate: list[float]) -> None:
    assert judged(candidate, [0, 1], [0, 1]).action == "reject"


def test_the_configured_metric_decides() -> None:
    candidate, current = [(0.0, 0.9)], [(1.0, 0.1)]
    assert decide(candidate, current, current, evaluation=HARD).action == "reject"
    assert decide(candidate, current, current, evaluation=SOFT).action == "accept_new_best"


def test_the_mix_is_exact_too() -> None:
    mixed = Evaluation(gate_metric="mixed", gate_mixed_weight=0.1)
    verdict = decide([(0.0, 1.0)], [(0.1, 0.1)], [(0.1, 0.1)], evaluation=mixed)
    assert (verdict.action, verdict.candidate, verdict.current) == ("reject", 0.1, 0.1)


def test_rounding_noise_is_a_tie() -> None:
    assert 0.1 + 0.2 > 0.3 + 0.0
    assert judged([0.1, 0.2], [0.3, 0.0], [0.3, 0.0]).action == "reject"


def test_thirds_add_up_to_a_whole() -> None:
    verdict = judged([1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0])
    assert (verdict.action, verdict.candidate) == ("reject", verdict.current)


def test_one_task_in_many_is_enough() -> None:
    current = [1.0, 0.0] * 5000
    assert judged([*current[:-1], 1.0], current, current).action == "accept_new_best"


def test_the_reason_shows_the_arithmetic() -> None:
    verdict = judged([1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0])
    assert verdict.reason == (
        "0.5000 is 0.25 above the current skill's 0.2500 on 4 tasks, "
        "but not above the best skill's 0.7500"
    )


def test_the_reason_of_a_rejection_tells_a_tie_from_a_loss() -> None:
    assert (
        "1.0000 is the same as the current skill's score on 1 task" in judged([1], [1], [1]).reason
    )
    assert "0.0000 is 1 below the current skill's 1.0000" in judged([0], [1], [1]).reason


@given(scores=st.lists(shares, min_size=1, max_size=30), data=st.data())
def test_the_same_scores_in_any_order_tie(scores: list[float], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(scores))
    verdict = judged(shuffled, scores, scores)
    assert (verdict.action, verdict.candidate) == ("reject", verdict.current)


@given(pairs=st.lists(st.tuples(shares, shares), min_size=1, max_size=30))
def test_acceptance_is_exactly_a_higher_sum_of_shares(pairs: list[tuple[float, float]]) -> None:
    def total(side: int) -> Fraction:
        return sum((Fraction(pair[side]).limit_denominator(60) for pair in pairs), Fraction())

    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    accepted = judged(ours, theirs, theirs).action == "accept_new_best"
    assert accepted == (total(0) > total(1))

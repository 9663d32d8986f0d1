from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import Decision
from skillopt_ci.training.gate import Setup, compare, losses, set_up
from skillopt_ci.training.measure import gate_score

HARD = Evaluation(gate_metric="hard")
SOFT = Evaluation(gate_metric="soft")

shares = st.integers(1, 60).flatmap(lambda of: st.integers(0, of).map(lambda right: right / of))


def side(*scores: tuple[float, float], density: float = 0.0, words: int = 0) -> Measurement:
    tasks = {str(number): one for number, one in enumerate(scores)}
    return Measurement(hard=0, soft=0, score=0, tasks=tasks, density=density, words=words)


def judged(candidate: list[float], current: list[float], best: list[float]) -> Decision:
    sides = (side(*((0.0, one) for one in scores)) for scores in (candidate, current, best))
    return compare(*sides, SOFT)


def test_metrics_pick_or_mix_the_means():
    assert gate_score(0.25, 0.75, "hard", 0.5) == 0.25
    assert gate_score(0.25, 0.75, "soft", 0.5) == 0.75
    assert gate_score(0.25, 0.75, "mixed", 0.25) == 0.375


@pytest.mark.parametrize(
    ("candidate", "current", "best", "action"),
    [
        ([1, 1], [1, 0], [1, 0], "accept_new_best"),
        ([1, 0], [0, 0], [1, 0], "accept"),
        ([0, 0], [0, 1], [0, 1], "reject"),
        ([1, 0], [0, 1], [0, 1], "reject"),
        ([0.1, 0.2], [0.3, 0.0], [0.3, 0.0], "reject"),  # rounding noise is a tie
    ],
)
def test_a_score_is_held_against_current_and_best(candidate, current, best, action):
    assert judged(candidate, current, best).action == action


def test_the_configured_metric_decides():
    candidate, current = side((0.0, 0.9)), side((1.0, 0.1))
    assert compare(candidate, current, current, HARD).action == "reject"
    assert compare(candidate, current, current, SOFT).action == "accept_new_best"
    mixed = Evaluation(gate_metric="mixed", gate_mixed_weight=0.1)
    current = side((0.1, 0.1))
    verdict = compare(side((0.0, 1.0)), current, current, mixed)
    assert (verdict.action, verdict.score_after, verdict.score_before) == ("reject", 0.1, 0.1)


def test_one_task_in_many_is_enough():
    current = [1.0, 0.0] * 5000
    assert judged([*current[:-1], 1.0], current, current).action == "accept_new_best"


def test_the_reason_shows_the_arithmetic():
    verdict = judged([1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0])
    assert verdict.reason == (
        "0.5000 is 0.25 above the current skill's 0.2500 on 4 tasks, "
        "but not above the best skill's 0.7500"
    )
    same = "1.0000 is the same as the current skill's score on 1 task"
    assert same in judged([1], [1], [1]).reason
    assert "0.0000 is 1 below the current skill's 1.0000" in judged([0], [1], [1]).reason


@given(scores=st.lists(shares, min_size=1, max_size=30), data=st.data())
def test_the_same_scores_in_any_order_tie(scores, data):
    verdict = judged(data.draw(st.permutations(scores)), scores, scores)
    assert (verdict.action, verdict.score_after) == ("reject", verdict.score_before)


@given(pairs=st.lists(st.tuples(shares, shares), min_size=1, max_size=30))
def test_acceptance_is_exactly_a_higher_sum_of_shares(pairs):
    def total(side: int) -> Fraction:
        return sum((Fraction(pair[side]).limit_denominator(60) for pair in pairs), Fraction())

    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert (judged(ours, theirs, theirs).action == "accept_new_best") == (total(0) > total(1))


DENSE = Evaluation(use_semantic_density=True, semantic_density_weight=0.5)
SHORT = Evaluation(ties="prefer_shorter")
OPEN = Evaluation(use_gate=False)


def hard(*scores: float, density: float = 0.0, words: int = 0) -> Measurement:
    return side(*((score, score) for score in scores), density=density, words=words)


@pytest.mark.parametrize(
    ("candidate", "current", "options", "action"),
    [
        (0.2, 0.0, DENSE, "accept_new_best"),
        (1 / 3, 1 / 3, DENSE, "reject"),
        (0.9, 0.0, HARD, "reject"),
    ],
)
def test_density_tips_the_scale_between_equals(candidate, current, options, action):
    ours, theirs = hard(1, 0, density=candidate), hard(1, 0, density=current)
    verdict = compare(ours, theirs, theirs, options)
    assert verdict.action == action
    if action != "reject":
        assert (verdict.score_after, verdict.score_before) == (0.6, 0.5)


def test_of_two_that_tie_the_shorter_may_win():
    shorter, longer = hard(1, 0, words=8), hard(1, 0, words=10)
    verdict = compare(shorter, longer, longer, SHORT)
    assert (verdict.action, verdict.beats_best) == ("accept_new_best", True)
    assert verdict.reason.endswith("on 2 tasks, but 2 words shorter")


@pytest.mark.parametrize(
    ("score", "words", "best", "action"),
    [(1, 8, 1, "reject"), (1, 9, 1, "reject"), (1, 7, 2, "accept"), (0, 1, 1, "reject")],
)
def test_a_tie_of_the_same_length_or_more_is_rejected(score, words, best, action):
    current = hard(1, 0, words=8)
    verdict = compare(hard(score, 0, words=words), current, hard(1, best - 1), SHORT)
    assert (verdict.action, verdict.beats_best) == (action, False)


@pytest.mark.parametrize(("scores", "better"), [((1, 1), True), ((1, 0), False), ((0, 0), False)])
def test_an_open_gate_lets_everything_in_but_only_a_gain_is_best(scores, better):
    verdict = compare(hard(*scores), hard(0, 1), hard(0, 1), OPEN)
    assert (verdict.action, verdict.beats_best) == ("force_accept", better)


@pytest.mark.parametrize(
    ("scores", "action", "better"),
    [((1, 1), "accept_notes", True), ((1, 0), "accept_notes", False), ((0, 0), "reject", False)],
)
def test_notes_stay_unless_they_do_harm(scores, action, better):
    verdict = compare(hard(*scores), hard(0, 1), hard(0, 1), HARD, notes_only=True)
    assert (verdict.action, verdict.beats_best) == (action, better)


def test_forced_notes_stay_whatever_they_do():
    verdict = compare(hard(0), hard(1), hard(1), OPEN, notes_only=True)
    assert (verdict.action, verdict.beats_best) == ("accept_notes", False)
    assert "in any case" in verdict.reason


TYPES = {"a": "claims", "b": "claims", "c": "notes", "d": "", "e": "notes"}
BEFORE = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 1.0, "e": 1.0}
AFTER = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 1.0}


@pytest.mark.parametrize(
    ("allowed", "lost"),
    [(None, {}), (0.0, {"claims": 0.5}), (0.49, {"claims": 0.5}), (0.5, {}), (1.0, {})],
)
def test_types_that_lost_more_than_allowed_are_named(allowed, lost):
    before, after = (
        {task: (score, score) for task, score in side.items()} for side in (BEFORE, AFTER)
    )
    terms = Setup(tuple(BEFORE), frozenset(BEFORE), before, Evaluation())
    assert losses(after, terms, TYPES, allowed) == lost


PLANNED = ("a", "b", "c", "d")


def measured(**tasks: float) -> Measurement:
    scores = {task: (one, one) for task, one in tasks.items()}
    mean = sum(tasks.values()) / len(tasks)
    return Measurement(hard=mean, soft=mean, score=mean, tasks=scores, words=3)


TEXT = (0.0, 1)
CURRENT = measured(a=1.0, b=0.0, c=1.0, d=0.0)


def test_tasks_that_are_seldom_solved_come_first():
    past = [{"d": (1.0, 1.0), "c": (0.0, 0.0)}]
    assert set_up(TEXT, PLANNED, CURRENT, CURRENT, past, Evaluation()).order == ("b", "c", "d", "a")
    terms = set_up(TEXT, PLANNED, CURRENT, measured(a=1.0, c=0.0, d=0.0), (), Evaluation())
    assert (terms.order[-1], terms.eligible) == ("b", {"a", "c", "d"})


def test_an_open_gate_or_one_without_early_stopping_measures_everything():
    for off in (Evaluation(use_gate=False), Evaluation(gate=GateConfig(early_stop=False))):
        assert not set_up(TEXT, PLANNED, CURRENT, CURRENT, (), off).stop
    evaluation = Evaluation(use_semantic_density=True, semantic_density_weight=0.5)
    assert set_up((1.0, 2), PLANNED, CURRENT, CURRENT, (), evaluation).bonus == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("words", "options", "notes", "tie_wins"),
    [
        (1, {}, True, True),
        (1, {}, False, False),
        (1, {"ties": "prefer_shorter"}, False, True),
        (5, {"ties": "prefer_shorter"}, False, False),
    ],
)
def test_a_shorter_document_may_tie_where_that_is_preferred(words, options, notes, tie_wins):
    evaluation = Evaluation(**options)
    terms = set_up((0.0, words), PLANNED, CURRENT, CURRENT, (), evaluation, notes_only=notes)
    assert terms.tie_wins is tie_wins

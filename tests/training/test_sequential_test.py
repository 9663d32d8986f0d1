"""Tests end as early as they may, and never with another verdict."""

from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from records import state_of

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import Snapshot, State
from skillopt_ci.training import gate
from skillopt_ci.training.gate import Ask, Ending, Setup, compare, decide, replay, sequential_test
from skillopt_ci.training.measure import measurement_of, worth
from skillopt_ci.training.offline_eval import accepted_share, lifted

Scores = dict[str, float | None]
HARD = Evaluation()

scores = st.sampled_from([0.0, 0.25, 1.0])
outcomes = st.lists(st.tuples(scores, st.none() | scores), min_size=1, max_size=24)


def terms(current: Mapping[str, float], look_every: int = 3, **changes: object) -> Setup:
    values: dict[str, object] = {
        "order": tuple(current),
        "eligible": frozenset(current),
        "current": {task: (one, one) for task, one in current.items()},
        "evaluation": Evaluation.model_validate({"gate": {"look_every": look_every}}),
    }
    return Setup(**(values | changes))


def run_test(
    terms: Setup,
    candidate: Callable[[str], float | None],
    known: Mapping[str, tuple[float, float]] | None = None,
) -> tuple[Ending, list[Ask]]:
    """Run a test whose attempts come to what the function says of the task."""
    asked: list[Ask] = []
    test = sequential_test(terms, known or {})
    try:
        ask = next(test)
        while True:
            asked.append(ask)
            found = {task: candidate(task) for task in ask.tasks}
            ask = test.send({task: (one, one) for task, one in found.items() if one is not None})
    except StopIteration as done:
        outcome: Ending = done.value
    return outcome, asked


def attempts(asked: list[Ask]) -> int:
    return sum(len(ask.tasks) for ask in asked)


def named(values: list[float]) -> dict[str, float]:
    return {f"t{number}": value for number, value in enumerate(values)}


def side(scores: dict[str, float], density: float) -> Measurement:
    tasks = {task: (one, 0.0) for task, one in scores.items()}
    return Measurement(hard=0, soft=0, score=0, tasks=tasks, density=density)


@given(outcomes, st.sampled_from([-0.3, -0.01, 0.0, 0.01, 0.3]), st.booleans(), st.randoms())
def test_stopping_early_never_changes_a_verdict(pairs, bonus, notes, dice):
    """Any order, any errors: the verdict is that of measuring everything."""
    current = named([before for before, _ in pairs])
    after: Scores = {f"t{number}": found for number, (_, found) in enumerate(pairs)}
    order = list(current)
    dice.shuffle(order)
    weight = Fraction(bonus).limit_denominator(1000)
    about = terms(current, order=tuple(order), bonus=weight, tie_wins=notes)
    outcome, _ = run_test(about, after.__getitem__)
    measured = [task for task in current if after[task] is not None]
    if outcome.end == "certain" and measured:
        ours = side({task: after[task] or 0.0 for task in measured}, max(bonus, 0.0))
        theirs = side({task: current[task] for task in measured}, max(-bonus, 0.0))
        dense = HARD.model_copy(update={"use_semantic_density": True, "semantic_density_weight": 1})
        assert compare(ours, theirs, theirs, dense, notes_only=notes).action == "reject"


def test_a_bonus_counts_for_every_task_to_come():
    about = terms(named([1, 0]), look_every=1, bonus=Fraction(3, 10))
    assert run_test(about, named([0, 1]).__getitem__)[0].end == "measured"  # the mean is 0.3 higher
    about = terms(named([1, 0]), look_every=1, bonus=Fraction(-3, 10))
    assert run_test(about, named([0, 1]).__getitem__)[0].end == "certain"  # and here 0.3 lower


def test_a_candidate_that_fixes_nothing_is_given_up_at_the_first_look():
    outcome, asked = run_test(terms(named([0, 0, 0, 1, 1, 1, 1, 1, 1])), lambda _: 0.0)
    assert (outcome.end, attempts(asked), outcome.attempts) == ("certain", 3, 3)


@given(outcomes, st.randoms(), st.floats(0, 1))
def test_what_is_begun_ahead_is_asked_next(pairs, dice, share):
    """Nothing is begun that the verdict does without, whatever is known and whatever is to come."""
    current = named([before for before, _ in pairs])
    after: Scores = {f"t{number}": found for number, (_, found) in enumerate(pairs)}
    came = {
        task: (one, one) for task, one in after.items() if one is not None and dice.random() < share
    }
    _, asked = run_test(terms(current, look_every=2), after.__getitem__)
    for number, ask in enumerate(asked):
        sure = [one.tasks for one in ask.sure(came)]
        assert sure == [one.tasks for one in asked[number + 1 : number + 1 + len(sure)]]
        assert sure[: len(ask.sure({}))] == [one.tasks for one in ask.sure({})]


def test_lots_whose_results_cannot_end_the_test_begin_with_the_first():
    outcome, asked = run_test(terms(named([0, 0, 0, 0, 0, 1, 1, 1, 1])), lambda _: 0.0)
    # after three failures two gains are still in reach, after six none
    assert [len(ask.sure({})) for ask in asked] == [1, 0]
    assert (outcome.end, attempts(asked)) == ("certain", 6)


def test_a_lot_begins_when_what_came_of_the_one_before_is_enough():
    current = named([0, 0, 0, 1, 1, 1])
    _, asked = run_test(terms(current), lambda task: {"t0": 1.0}.get(task, current[task]))
    assert [ask.tasks for ask in asked] == [("t0", "t1", "t2"), ("t3", "t4", "t5")]
    # without a gain the test would end here; with one it does not, whatever the others come to
    assert (asked[0].sure({}), asked[0].sure({"t1": (0.0, 0.0)})) == ((), ())
    assert asked[0].sure({"t0": (1.0, 1.0)}) == (Ask(asked[1].tasks),)


def test_all_is_measured_while_a_gain_is_in_reach():
    about = terms(named([0, 1, 1, 1]))
    outcome, asked = run_test(about, lambda _: 1.0)
    assert (outcome.end, attempts(asked)) == ("measured", 4)
    assert [*about.differences(outcome.candidate).values()] == [1, 0, 0, 0]
    about = terms(named([0.0, 1.0]), eligible=frozenset({"t1"}))
    outcome, _ = run_test(about, lambda _: 1.0)
    assert [*about.differences(outcome.candidate).values()] == [0]


def test_without_early_stopping_all_is_measured_at_once():
    _, asked = run_test(terms(named([0, 1, 1, 1, 1]), stop=False), lambda _: 0.0)
    assert [len(ask.tasks) for ask in asked] == [5]


def test_known_results_take_the_place_of_attempts():
    known = {"t0": (1.0, 1.0), "t3": (0.0, 0.0)}
    outcome, asked = run_test(terms(named([0, 0, 1, 1])), lambda _: 1.0, known=known)
    assert [task for ask in asked for task in ask.tasks] == ["t1", "t2"]
    assert (outcome.candidate["t3"], outcome.attempts) == ((0.0, 0.0), 2)
    assert outcome.asked == ("t0", "t1", "t2", "t3")


def standing(current: Measurement) -> State:
    return state_of(Snapshot(sha256="a" * 64, step=0, origin="initial", measurement=current))


@given(outcomes, st.booleans())
def test_replay_makes_the_verdict_of_the_recorded_scores(pairs, notes):
    current = side(named([before for before, _ in pairs]), 0.0)
    after = {f"t{number}": found for number, (_, found) in enumerate(pairs)}
    quick = Evaluation.model_validate({"gate": {"look_every": 3, "max_type_loss": 0}})
    about = gate.set_up((0.0, 0), tuple(after), current, current, (), quick, notes_only=notes)
    outcome, _ = run_test(about, after.__getitem__)
    errors = [task for task in outcome.asked if after[task] is None]
    planned = len(after) if len(outcome.asked) < len(after) else 0
    found = measurement_of(outcome.candidate, errors, quick, "", planned)
    assume(found.tasks)
    state, types = standing(current), dict.fromkeys(after, "x")
    decision = decide(about, outcome, found, state, types)
    assert bool(decision.gate.losses) == (decision.gate.difference < 0 and not notes)
    recorded = decision.model_copy(update={"measurement": found})
    again = replay(recorded, state, quick, notes_only=notes)
    assert again.model_copy(update={"gate": None}) == decision.model_copy(update={"gate": None})


def test_replay_knows_a_rejection_that_was_not_certain():
    current = side(named([0, 0, 0, 1]), 0.0)
    state, about = standing(current), terms(named([0, 0, 0, 1]))
    found = measurement_of({"t0": (0.0, 0.0)}, (), HARD, "", 4)
    decision = decide(about, Ending("certain", found.tasks, ("t0",), 1), found, state, {})
    assert replay(decision.model_copy(update={"measurement": found}), state, HARD) is None


SHARES = [0.2, 0.5, 0.8] * 10


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(-1, 1))
def test_lifting_keeps_to_rates(rates, lift):
    moved = lifted(rates, lift)
    assert all(-1e-9 <= rate <= 1 + 1e-9 for rate in moved)
    mean, before = sum(moved) / len(moved), sum(rates) / len(rates)
    assert mean == pytest.approx(min(1.0, max(0.0, before + lift)), abs=1e-6)


def test_the_gate_takes_chance_for_a_gain_and_finds_gains_more_often():
    same, worse, better = (accepted_share(SHARES, lift) for lift in (0.0, -0.2, 0.2))
    assert worse < 0.15
    assert 0.3 < same < 0.55 < better
    assert accepted_share(SHARES, 0.1) == accepted_share(SHARES, 0.1)
    assert accepted_share(SHARES * 4, 0.1) > accepted_share(SHARES, 0.1)


def test_looking_ahead_compares_each_task_about_once(monkeypatch):
    """However many looks there are, and however often it is asked what is certain by now."""
    compared: list[object] = []
    monkeypatch.setattr(gate, "worth", lambda *them: compared.append(them) or worth(*them))
    about = terms(named([0.0] * 300))
    _, asked = run_test(about, lambda _: 1.0)
    for ask in asked:
        ask.sure({})
        ask.sure(dict.fromkeys(about.order[:150], (1.0, 1.0)))
    assert len(compared) < 10 * 300


def test_a_tie_that_wins_is_waited_for():
    about = terms({"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0}, tie_wins=True)
    scores = {"a": 0.0, "b": 1.0, "c": 1.0, "d": 1.0}
    assert run_test(about, scores.__getitem__)[0].end == "measured"

"""Confirmation: what was merged is told from noise by fresh attempts, or stays provisional."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from training_runs import estimated, train_all

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader
from skillopt_ci.cli.show import _replayed_confirmations
from skillopt_ci.estimate.calls import Range
from skillopt_ci.ledger.folder import RunFolder, document
from skillopt_ci.ledger.records import ConfirmationRecord, FreshPair, HistoryEntry
from skillopt_ci.progress import Event, Note, StageAdvanced, StageStarted
from skillopt_ci.training import confirm
from skillopt_ci.training.confirm import (
    ALPHA,
    drift,
    fewest_pairs,
    level,
    next_look,
    recomputed,
    tally,
    verdict,
)
from tests.conftest import BRANCH, RULES, SKILL, Checkout, ModelServer, Stopped

A, B, C = (RULES[kind] for kind in "abc")
ON = "evaluation.confirm=1"


def test_the_levels_of_all_tests_add_up_to_the_promised_rate():
    assert sum(map(level, range(1, 10_000))) < ALPHA
    assert sum(map(level, range(1, 10_000))) > 0.999 * ALPHA


@pytest.mark.parametrize("solved", [0.1, 0.5])  # 0.9 makes the differences of 0.1
def test_equal_skills_are_confirmed_no_more_often_than_the_level_says(solved):
    """A/A runs of three tests each, looked at after every pair."""
    chance, false = random.Random(7), 0
    for _ in range(300):
        for test in (1, 2, 3):
            draws = [(chance.random() < solved) - (chance.random() < solved) for _ in range(40)]
            if ending(draws, test)[0] == "confirmed":
                false += 1
                break
    assert false <= 300 * ALPHA


def ending(differences: Sequence[float], test: int = 1) -> tuple[str | None, int]:
    """How a test of these pairs ends that is looked at after each, and after how many."""
    for pairs in range(len(differences) + 1):
        seen, left = differences[:pairs], len(differences) - pairs
        wins, losses = sum(one > 0 for one in seen), sum(one < 0 for one in seen)
        if (found := verdict(wins, losses, left, level(test))) is not None:
            return found, pairs
    return None, len(differences)


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=40), st.integers(1, 3))
def test_a_test_that_ends_early_comes_to_what_all_its_pairs_come_to(differences, test):
    found, _ = ending(differences, test)
    wins, losses = differences.count(1), differences.count(-1)
    better, worse = (
        scipy.stats.binomtest(one, max(1, wins + losses), alternative="greater").pvalue
        <= level(test)
        for one in (wins, losses)
    )
    assert found == ("confirmed" if better else "refuted" if worse else "open")


def test_a_verdict_comes_as_soon_as_it_is_certain():
    assert ending([1] * 6 + [0] * 2) == ("confirmed", 8)
    assert ending([1] * 16) == ("confirmed", 13)
    assert ending([-1] * 16) == ("refuted", 13)
    assert ending([0] * 8) == ("open", 3)
    assert [fewest_pairs(test) for test in (1, 2, 3)] == [8, 8, 16]
    # a long test asks a failing server for no more than its first pairs
    assert (next_look(0, 0, 56, level(1)), next_look(0, 0, 500, level(1))) == (40, confirm.ENOUGH)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 32), st.integers(1, 4))
def test_pairs_are_drawn_up_to_the_first_look_that_could_end_the_test(wins, losses, left, test):
    size, allowed = next_look(wins, losses, left, level(test)), level(test)
    ends = [
        pairs
        for pairs in range(confirm.LOOK, left, confirm.LOOK)
        for won in range(pairs + 1)
        for lost in range(pairs + 1 - won)
        if verdict(wins + won, losses + lost, left - pairs, allowed)
    ]
    assert size == min(ends, default=left)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=24))
def test_partial_credit_counts_as_a_win_or_loss_with_its_own_probability(differences):
    wins, losses = tally(fresh([0.0] * len(differences), differences))
    assert wins <= sum(one > 0 for one in differences)
    assert losses <= sum(one < 0 for one in differences)
    whole = [float(round(one)) for one in differences]
    assert tally(fresh([0.0] * len(whole), whole)) == (whole.count(1), whole.count(-1))


def test_partial_credit_keeps_its_mean():
    wins, losses = tally(fresh([0.0] * 2_000, [0.3, -0.1] * 1_000))
    assert wins == pytest.approx(300, abs=45)
    assert losses == pytest.approx(100, abs=30)


def record(checkout: Checkout, test: int = 1) -> ConfirmationRecord:
    path = RunFolder("demo").confirmation(test)
    return ConfirmationRecord.model_validate_json(checkout.show(BRANCH, path))


def all_at_once(model_server: ModelServer) -> None:
    """Let the first step bring all rules."""
    rules = "\n".join(f"- {rule}" for rule in RULES.values())
    model_server.edit = lambda _: {"op": "append", "content": rules}


def test_a_truly_better_skill_is_confirmed_by_attempts_that_nothing_used(checkout, model_server):
    all_at_once(model_server)
    checkout.run(ON, "evaluation.ties=prefer_shorter")  # or training ended after step 1
    assert checkout.kinds() == ["start", "step", "step", "step", "step", "confirm"]
    state, found, entry = checkout.state(), record(checkout), checkout.history()[-1]
    assert (state.provisional, state.confirmed.step) == (False, 4)
    assert (found.action, found.level) == ("confirmed", round(level(1), 12))
    assert [one.draw for one in found.pairs] == list(range(found.draws))
    assert {(one.current, one.confirmed) for one in found.pairs} == {(1.0, 0.0)}
    told = (entry.action, entry.score_before, entry.score_after, entry.tasks)
    assert told == ("confirmed", 0.0, 1.0, len(found.pairs))
    # every one was asked for: neither the cache nor the gate's own attempts answered
    assert entry.usage.calls == 2 * found.draws == 2 * 16
    assert checkout.show(BRANCH, RunFolder("demo").confirmed_skill) == checkout.show(BRANCH)
    assert checkout.subjects()[-1] == "Confirm: +1.000 over the initial skill on 16 fresh pairs"
    # it can be recomputed from git alone
    (row,) = _replayed_confirmations(open_reader(Globals({}, checkout.folder)))
    assert row == ("confirmation 1", "confirmed", 16, "the same")
    tie = found.pairs[0].model_copy(update={"confirmed": 1.0})
    forged = found.model_copy(update={"pairs": (tie, *found.pairs[1:])})
    assert recomputed(forged) != forged
    checkout.commit(RunFolder("demo").history, "", branch=BRANCH)
    (row,) = _replayed_confirmations(open_reader(Globals({}, checkout.folder)))
    assert row[3] == "differs: history.jsonl has no line that says so"
    # records of earlier versions, which bet on the pairs, can be read
    old = found.model_copy(update={"size": None, "p_value": None, "e_value": 48.2})
    checkout.commit(RunFolder("demo").confirmation(1), document(old), branch=BRANCH)
    (row,) = _replayed_confirmations(open_reader(Globals({}, checkout.folder)))
    assert row[3] == "not replayed: the test of an earlier version"


# half of 8 + 4 + 8 attempts in the first of four steps, but at least what can confirm anything
@pytest.mark.parametrize(("on", "pairs"), [(ON, 40), ("evaluation.confirm=0.1", 8)])
def test_a_run_that_ends_early_is_tested_as_if_it_made_all_steps(checkout, model_server, on, pairs):
    all_at_once(model_server)
    checkout.step(on)
    assert estimated(checkout.session(on))["confirmation"] == Range(0, 2 * pairs, 2 * pairs)
    assert estimated(checkout.session(on), "step").keys() == {"confirmation", "test"}
    checkout.run(on)
    assert checkout.kinds() == ["start", "step", "confirm"]
    assert record(checkout).size == pairs
    assert estimated(checkout.session(on)).keys() == {"test"}


def test_steps_that_a_run_made_count_even_if_it_now_has_fewer(checkout, model_server):
    all_at_once(model_server)
    for _ in range(3):
        checkout.step(ON, "evaluation.ties=prefer_shorter")
    rest = estimated(checkout.session(ON, "evaluation.ties=prefer_shorter"))
    assert rest["confirmation"].likely > 2 * 12  # a fourth step alone takes 12
    checkout.run(ON, "train.num_epochs=1", "train.batch_size=8")
    assert record(checkout).size == 16  # not a third, for the one step that it now has


def test_a_skill_that_won_by_luck_stays_provisional_and_is_tested_no_more(checkout, model_server):
    all_at_once(model_server)
    truly, lucky = model_server.answer, set[str]()

    def answer(system: str, prompt: str) -> str:
        """The rules help at the first attempt only."""
        if prompt in lucky:
            system = ""
        elif prompt.startswith("Item") and RULES["a"] in system:
            lucky.add(prompt)
        return truly(system, prompt)

    model_server.answer = answer
    checkout.run(ON)
    assert checkout.history()[1].stays
    assert checkout.state().provisional
    found = record(checkout)
    assert (found.action, {one.difference for one in found.pairs}) == ("open", {0.0})
    kinds, answered = checkout.kinds(), model_server.answered.total()
    checkout.run(ON)
    assert (checkout.kinds(), model_server.answered.total()) == (kinds, answered)


@pytest.mark.parametrize("bonus", [False, True])
def test_a_model_that_changed_since_the_run_began_is_noticed(checkout, model_server, bonus):
    all_at_once(model_server)
    truly, heard, known = model_server.answer, list[Event](), "\n".join(RULES.values())
    more = (ON, f"evaluation.use_semantic_density={bonus}")
    checkout.step(*more)
    # what the rules say, the model has learned by itself in the meantime
    model_server.answer = lambda system, prompt: truly(system + known, prompt)
    checkout.run(*more, observer=heard.append)
    entry = next(entry for entry in checkout.history() if entry.kind == "confirm")
    said = "initial skill scored 0.000 when the run began and 1.000 now"
    if bonus:  # which scores of pairs do not have
        assert "began" not in entry.reason
        return
    assert said in entry.reason
    notes = [one.text for one in heard if isinstance(one, Note)]
    assert sum(said in note for note in notes) == checkout.kinds().count("confirm")
    place = next(n for n, subject in enumerate(checkout.subjects()) if "fresh" in subject)
    assert "began" not in checkout.subjects()[place]
    body = checkout.git("log", "--first-parent", "--reverse", "--format=%b%x00", BRANCH)
    assert said in " ".join(body.split("\0")[place].split())


@pytest.mark.parametrize("solved", [0, 1, 20, 39, 40])
def test_chance_is_taken_for_a_change_of_the_model_once_in_a_thousand_tests(solved):
    share, dice = solved / 40, random.Random(solved)
    alarms = 0
    for _ in range(500):
        first = sum(dice.random() < share for _ in range(40)) / 40
        again = [float(dice.random() < share) for _ in range(24)]
        alarms += drift([started(first)], fresh(again)) != ""
    assert alarms <= 3


def test_scores_from_before_the_conditions_changed_are_no_control():
    start, worse = started(0.9), fresh([0.0] * 24)
    assert drift([start], worse)
    edited = start.model_copy(update={"kind": "measure", "skill_sha256": "by hand"})
    assert drift([start, edited], worse)
    assert not drift([start, start.model_copy(update={"kind": "measure"})], worse)
    both = "the skill was changed by hand, and the selection tasks or the way of measuring changed"
    assert not drift([start, edited.model_copy(update={"reason": both})], worse)
    assert not drift([edited], worse)


def started(score: float) -> HistoryEntry:
    begin = {"kind": "start", "step": 0, "epoch": 0, "action": "start", "tasks": 40}
    return HistoryEntry(**begin, score_after=score, skill_sha256="initial")


def fresh(again: list[float], current: list[float] | None = None) -> ConfirmationRecord:
    pairs = [
        FreshPair(id=str(draw), draw=draw, current=score, confirmed=confirmed)
        for draw, (confirmed, score) in enumerate(
            zip(again, current or [1.0] * len(again), strict=True)
        )
    ]
    return ConfirmationRecord(
        test=1,
        level=level(1),
        step=1,
        current="now",
        confirmed="initial",
        measured_under="",
        metric="hard",
        seed=0,
        size=len(pairs),
        draws=len(pairs),
        action="open",
        p_value=1.0,
        pairs=tuple(pairs),
    )


def test_a_kill_at_any_attempt_leaves_the_same_trees(workshop):
    workshop.server.plan = (A, B, C)
    whole, killed = workshop.checkout("whole"), workshop.checkout("killed")
    whole.run(ON)
    assert whole.kinds().count("confirm") == 1
    made = ends = 0

    def kill(event: Event) -> None:
        nonlocal made
        if isinstance(event, StageAdvanced) and event.stage == "confirmation":
            made += 1
            if made in (1, 19, 40):
                raise Stopped

    while not ends or "confirm" not in killed.kinds():
        try:
            killed.run(ON, observer=kill)
        except Stopped:
            ends += 1
    assert ends > 2
    assert killed.trees() == whole.trees()


def test_an_epoch_s_end_leaves_half_of_the_attempts_for_the_end_of_the_run(checkout, model_server):
    model_server.plan = (A, B, C)
    settings = (ON, "rollout.attempts=4", "train.num_epochs=4")
    for _ in range(6):
        checkout.step(*settings)
    counted = estimated(checkout.session(*settings), "step")["confirmation"]
    checkout.run(*settings)
    assert checkout.kinds()[-4:] == ["step", "confirm", "step", "step"]
    found = record(checkout)
    assert counted == Range(0, 2 * found.size, 2 * found.size)
    assert found.size in range(confirm.WORTHWHILE, confirm.ENOUGH + 1, confirm.LOOK)
    assert (found.action, found.step) == ("confirmed", 6)
    assert not checkout.state().provisional


def test_what_a_first_test_leaves_open_a_second_one_tests_with_what_is_left(checkout, model_server):
    all_at_once(model_server)
    truly, more = model_server.answer, (ON, "rollout.attempts=12", "train.num_epochs=1")
    checkout.step(*more)
    known = "\n".join(RULES.values())
    # from now on, both skills do equally well
    model_server.answer = lambda system, prompt: truly(system + known, prompt)
    made = checkout.state().usage.calls
    checkout.run(*more)
    assert checkout.kinds()[-2:] == ["confirm", "confirm"]
    first, second = record(checkout), record(checkout, 2)
    assert (first.size, first.action, second.action) == (confirm.ENOUGH, "open", "open")
    assert confirm.WORTHWHILE <= second.size <= made - first.draws
    assert second.level == round(level(2), 12)
    assert second.pairs[0].draw == first.draws
    kinds = checkout.kinds()
    checkout.run(*more)
    assert checkout.kinds() == kinds


def test_runs_that_began_without_it_go_on_without_it(checkout, model_server):
    model_server.plan = (A, B, C)
    checkout.step()
    assert "confirmed" not in checkout.show(BRANCH, RunFolder("demo").state)
    without, with_it = (checkout.session(*more) for more in ((), (ON,)))
    assert without.config_sha256 == with_it.config_sha256
    assert without.measured_under == with_it.measured_under
    checkout.run(ON)
    assert "confirm" not in checkout.kinds()
    assert not checkout.state().provisional


def test_a_skill_that_a_person_edits_before_the_first_step_is_tested_later(checkout, model_server):
    def stop(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "rollout":
            raise Stopped

    with pytest.raises(Stopped):
        checkout.step(ON, observer=stop)
    checkout.commit(SKILL, f"# Items\n\n- {A}\n", BRANCH)
    checkout.run(ON)
    assert (checkout.kinds()[:2], checkout.kinds()[-1]) == (["start", "measure"], "confirm")


@pytest.mark.parametrize("budget", ["step.calls=18", "step.tokens=270"])
def test_a_budget_that_ends_leaves_it_for_later_and_the_run_goes_on(checkout, model_server, budget):
    model_server.plan = (A, B, C)
    checkout.run(ON, f"budget.{budget}")
    assert "confirm" not in checkout.kinds()
    assert checkout.state().usage.calls == sum(model_server.answered.values())
    checkout.run(ON)
    assert checkout.kinds()[-1] == "confirm"


def run_out_of_time(checkout: Checkout, kind: type, *more: str, at: int = 1) -> None:
    """Train until this event of a test, of which a step's minutes are over."""
    seen = [0]

    def take_long(event: Event) -> None:
        seen[0] += isinstance(event, kind) and event.stage == confirm.STAGE

    slow = (ON, "budget.step.minutes=0.5", "model.target.max_concurrency=1", *more)
    run = checkout.session(*slow, observer=take_long)
    run = replace(run, clock=lambda: 30.0 * (seen[0] >= at), command_started=0.0)
    with run.ledger.lock():
        asyncio.run(train_all(run, lambda _: None))


def test_a_test_is_finished_however_few_pairs_are_left(checkout, model_server, monkeypatch):
    monkeypatch.setattr(confirm, "LOOK", 4)  # so that a test this small has several looks
    model_server.plan, long = (A,), "train.num_epochs=12"
    run_out_of_time(checkout, StageAdvanced, long, "budget.run.minutes=0.5", at=34)
    assert (record(checkout).size, record(checkout).draws) == (24, 16)
    calls = checkout.state().usage.calls
    checkout.run(ON, long, f"budget.run.calls={calls + 39}")
    assert record(checkout).draws == 22
    checkout.run(ON, long)
    assert record(checkout).draws == 24


def test_what_was_paid_before_a_budget_ended_it_is_counted(checkout, model_server):
    run_out_of_time(checkout, StageStarted)
    assert checkout.kinds()[-1] == "step"  # no attempt was made: nothing is recorded
    assert not checkout.state().confirmed.tests
    run_out_of_time(checkout, StageAdvanced)
    assert checkout.history()[-1].kind == "confirm"
    assert checkout.state().usage.calls == sum(model_server.answered.values())
    assert record(checkout).draws == 0
    checkout.run(ON)
    assert record(checkout).draws > 0
    assert checkout.state().usage.calls == sum(model_server.answered.values())

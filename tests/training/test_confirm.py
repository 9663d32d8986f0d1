"""Confirmation: what was merged is told from noise by fresh attempts, or stays provisional."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_runs import train_all

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader
from skillopt_ci.cli.show import _replayed_confirmations
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.records import ConfirmationRecord, FreshPair, HistoryEntry
from skillopt_ci.progress import Event, Note, StageAdvanced
from skillopt_ci.training import confirm
from skillopt_ci.training.confirm import ALPHA, drift, fewest_pairs, level, recomputed, verdict
from tests.conftest import BRANCH, RULES, Checkout, ModelServer, Stopped

A, B, C = (RULES[kind] for kind in "abc")
ON = "evaluation.confirm=1"


def test_the_levels_of_all_tests_add_up_to_the_promised_rate():
    assert sum(map(level, range(1, 10_000))) < ALPHA
    assert sum(map(level, range(1, 10_000))) > 0.999 * ALPHA


@pytest.mark.parametrize("solved", [0.1, 0.5, 0.9])
def test_equal_skills_are_confirmed_no_more_often_than_the_level_says(solved):
    """A/A runs of three tests each, looked at after every pair."""
    chance, false = random.Random(7), 0
    for _ in range(300):
        for test in (1, 2, 3):
            draws = ((chance.random() < solved) - (chance.random() < solved) for _ in range(200))
            if verdict(draws, level(test))[0] == "confirmed":
                false += 1
                break
    assert false <= 300 * ALPHA


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=8, max_size=80))
def test_looks_that_are_made_at_once_could_not_have_ended_a_test(differences):
    at = 0
    while at < len(differences) and verdict(differences[:at], level(1))[0] == "open":
        size = fewest_pairs(1, differences[:at])
        inside = range(at, min(at + size - confirm.LOOK, len(differences)) + 1)
        assert {verdict(differences[:end], level(1))[0] for end in inside} == {"open"}
        at += size


def test_a_better_skill_is_confirmed_a_worse_one_refuted_and_the_first_crossing_counts():
    better = [0.0, 1.0] * 30
    assert verdict(better, level(1))[0] == "confirmed"
    assert verdict([-one for one in better], level(1))[0] == "refuted"
    assert verdict(better[:10], level(1))[0] == "open"
    # what comes after the verdict does not take it back
    assert verdict([*better, *[-1.0] * 100], level(1)) == verdict(better, level(1))
    assert verdict([0.0] * 1_000, level(1)) == ("open", 1.0)


def record(checkout: Checkout, test: int = 1) -> ConfirmationRecord:
    path = RunFolder("demo").confirmation(test)
    return ConfirmationRecord.model_validate_json(checkout.show(BRANCH, path))


def all_at_once(model_server: ModelServer) -> None:
    """Let the first step bring all rules."""
    rules = "\n".join(f"- {rule}" for rule in RULES.values())
    model_server.edit = lambda _: {"op": "append", "content": rules}


def test_a_truly_better_skill_is_confirmed_by_attempts_that_nothing_used(checkout, model_server):
    all_at_once(model_server)
    checkout.run(ON)
    assert checkout.kinds() == ["start", "step", "step", "confirm", "step", "step"]
    state, found, entry = checkout.state(), record(checkout), checkout.history()[3]
    assert (state.provisional, state.confirmed.step) == (False, 2)
    assert (found.action, found.level) == ("confirmed", round(level(1), 12))
    assert [one.draw for one in found.pairs] == list(range(found.draws))
    assert {(one.current, one.confirmed) for one in found.pairs} == {(1.0, 0.0)}
    told = (entry.action, entry.score_before, entry.score_after, entry.tasks)
    assert told == ("confirmed", 0.0, 1.0, len(found.pairs))
    # every one was asked for: neither the cache nor the gate's own attempts answered
    assert entry.usage.calls == 2 * found.draws == 2 * fewest_pairs(1)
    assert checkout.show(BRANCH, RunFolder("demo").confirmed_skill) == checkout.show(BRANCH)
    assert checkout.subjects()[4] == "Confirm: +1.000 over the initial skill on 8 fresh pairs"
    # it can be recomputed from git alone
    (row,) = _replayed_confirmations(open_reader(Globals({}, checkout.folder)))
    assert row == ("confirmation 1", "confirmed", "8", "the same")
    better = found.pairs[0].model_copy(update={"confirmed": 1.0})
    assert recomputed(found.model_copy(update={"pairs": (better, *found.pairs[1:])})) != (
        found.action,
        found.e_value,
    )


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


def test_a_model_that_changed_since_the_run_began_is_noticed_and_said(checkout, model_server):
    all_at_once(model_server)
    truly, notes = model_server.answer, list[str]()

    def answer(system: str, prompt: str) -> str:
        """What the rules say, the model has learned by itself in the meantime."""
        known = "\n".join(RULES.values()) if prompt.startswith("Item") else ""
        return truly(system + known, prompt)

    def hear(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(event.text)

    checkout.step(ON)
    model_server.answer = answer
    checkout.run(ON, observer=hear)
    entry = next(entry for entry in checkout.history() if entry.kind == "confirm")
    said = "initial skill scored 0.000 when the run began and 1.000 now"
    assert said in entry.reason
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
    return HistoryEntry(
        kind="start",
        step=0,
        epoch=0,
        action="start",
        score_after=score,
        tasks=40,
        skill_sha256="initial",
    )


def fresh(again: list[float]) -> ConfirmationRecord:
    pairs = [
        FreshPair(id=str(draw), draw=draw, current=1.0, confirmed=score)
        for draw, score in enumerate(again)
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
        draws=len(pairs),
        action="open",
        e_value=1.0,
        pairs=tuple(pairs),
    )


def test_a_kill_at_any_attempt_leaves_the_same_trees(workshop):
    workshop.server.plan = (A, B, C)
    whole, killed = workshop.checkout("whole"), workshop.checkout("killed")
    whole.run(ON)
    assert whole.kinds().count("confirm") == 2
    made = ends = 0

    def kill(event: Event) -> None:
        nonlocal made
        if isinstance(event, StageAdvanced) and event.stage == "confirmation":
            made += 1
            if made in (1, 19, 40, 75):
                raise Stopped

    while not ends or killed.kinds().count("confirm") < 2:
        try:
            killed.run(ON, observer=kill)
        except Stopped:
            ends += 1
    assert ends > 2
    assert killed.trees() == whole.trees()


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


@pytest.mark.parametrize("budget", ["step.calls=18", "step.tokens=270"])
def test_a_budget_that_ends_leaves_it_for_later_and_the_run_goes_on(checkout, model_server, budget):
    model_server.plan = (A, B, C)
    checkout.run(ON, f"budget.{budget}")
    assert "confirm" not in checkout.kinds()
    assert checkout.state().usage.calls == sum(model_server.answered.values())
    checkout.run(ON)
    assert checkout.kinds()[-1] == "confirm"


def test_what_was_paid_before_a_budget_ended_it_is_counted(checkout, model_server):
    seconds = [0]

    def take_long(event: Event) -> None:
        seconds[0] += 30 * (isinstance(event, StageAdvanced) and event.stage == confirm.STAGE)

    slow = (ON, "budget.step.minutes=1", "model.target.max_concurrency=1")
    run = replace(checkout.session(*slow, observer=take_long), clock=lambda: seconds[0])
    with run.ledger.lock():
        asyncio.run(train_all(run, lambda _: None))
    assert checkout.history()[-1].kind == "confirm"
    assert checkout.state().usage.calls == sum(model_server.answered.values())
    assert record(checkout).draws == 0
    checkout.run(ON)
    assert record(checkout).draws > 0
    assert checkout.state().usage.calls == sum(model_server.answered.values())

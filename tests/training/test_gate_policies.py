"""The gate's policies in whole steps: what is measured, kept, spared and refused."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import TooManyErrors

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer, Workshop

BRANCH = "skillopt/demo"
RULES = [f"Kind {kind}: a number begins with {kind}." for kind in "abcd"]
SOON = "evaluation.gate.look_every=2"
AFRESH = "evaluation.gate.remeasure=true"
PAIRED = ("evaluation.gate.policy=paired", "evaluation.gate.confidence=0.7", SOON)
SEQUENTIAL = (
    "evaluation.gate.policy=sequential",
    "evaluation.gate.attempts=2",
    "evaluation.gate.confidence=0.5",
    SOON,
)
RACE = ("evaluation.race.arms=4", "evaluation.race.tasks=4", "evaluation.race.heats=1")


def selection_calls(server: ModelServer) -> int:
    return sum(n for prompt, n in server.answered.items() if "Item 10" in prompt.split("\n\n")[-1])


def test_a_candidate_without_a_chance_is_not_measured_to_the_end(
    checkout: Checkout, model_server: ModelServer
) -> None:
    checkout.step()
    model_server.plan = ("Of no use.",)
    before = selection_calls(model_server)
    outcome = checkout.done(SOON)
    decision = outcome.decision
    assert selection_calls(model_server) - before == 6
    assert (decision.action, decision.partial, decision.compared) == ("reject", True, 6)
    assert (decision.score_before, decision.score_after) == (0.25, 0.25)
    assert decision.gate is not None
    assert (decision.gate.end, decision.gate.saved) == ("certain", 2)
    assert checkout.history()[-1].planned == 8
    assert outcome.state.current.measurement.n == 8


def test_a_lot_that_is_asked_in_any_case_does_not_wait_for_the_one_before(
    checkout: Checkout, model_server: ModelServer
) -> None:
    """The first attempts are held back until one of the next lot has come."""
    checkout.step("train.num_epochs=1")
    three, seen, waited = threading.Event(), set[str](), list[bool]()

    def trouble(prompt: str) -> None:
        if "Stage:" not in prompt and "Item 10" in prompt.rsplit("\n\n", maxsplit=1)[-1]:
            seen.add(prompt)
            if len(seen) > 2:
                three.set()
            waited.append(three.wait(30))

    model_server.trouble = trouble
    checkout.done(SOON)
    assert len(seen) > 2
    assert all(waited)


def test_a_lot_begins_when_the_answers_so_far_are_enough(
    checkout: Checkout, model_server: ModelServer
) -> None:
    """The last answer of the first lot is held back until an attempt of the second has come."""
    checkout.step("train.num_epochs=1")
    second_lot, seen, lock, waited = threading.Event(), list[str](), threading.Lock(), list[bool]()

    def trouble(prompt: str) -> None:
        if "Stage:" in prompt or "Item 10" not in prompt.rsplit("\n\n", maxsplit=1)[-1]:
            return
        with lock:
            seen.append(prompt)
            number = len(seen)
        if number == 6:
            waited.append(second_lot.wait(30))
        elif number > 6:
            second_lot.set()

    model_server.trouble, model_server.plan = trouble, (RULES[1],)
    # six tasks are unsolved: a gain on one of them, and the two others are needed
    outcome = checkout.done("evaluation.gate.look_every=6")
    assert outcome.record.merged
    assert waited == [True]


def test_early_stopping_changes_no_verdict(workshop: Workshop) -> None:
    thorough, quick = workshop.checkout("thorough"), workshop.checkout("quick")
    thorough.run("evaluation.gate.early_stop=false")
    quick.run(SOON)
    one, other = thorough.history(), quick.history()
    assert [entry.action for entry in one] == [entry.action for entry in other]
    assert [entry.skill_sha256 for entry in one] == [entry.skill_sha256 for entry in other]


def test_a_partial_finding_is_completed_when_the_candidate_comes_again(
    checkout: Checkout, model_server: ModelServer
) -> None:
    checkout.step()
    model_server.plan = ("Of no use.",)
    checkout.step(SOON)
    model_server.plan = ()
    checkout.step()
    model_server.plan = ("Of no use.",)
    before = selection_calls(model_server)
    outcome = checkout.done("evaluation.gate.early_stop=false", "cache.enabled=false")
    assert selection_calls(model_server) - before == 2
    assert outcome.decision.compared == 8


def test_an_accepted_skill_is_measured_afresh_where_that_is_wanted(
    checkout: Checkout, model_server: ModelServer
) -> None:
    outcome = checkout.done(AFRESH)
    decision = outcome.decision
    assert decision.baseline is not None
    assert decision.gate is not None
    assert (decision.baseline.first_attempt, decision.gate.baseline_attempts) == (1, 8)
    assert outcome.state.current.measurement == outcome.state.best.measurement == decision.baseline
    asked = {p: n for p, n in model_server.answered.items() if "Item 10" in p.split("\n\n")[-1]}
    assert max(asked.values()) == 2


def test_a_gain_that_chance_explains_is_turned_away(checkout: Checkout) -> None:
    outcome = checkout.done("evaluation.gate.policy=paired", "evaluation.gate.confidence=0.8")
    decision = outcome.decision
    assert decision.gate is not None
    assert (decision.action, decision.gate.p_value) == ("reject", 0.25)
    assert "not more than chance explains (p = 0.250, accepted at 0.2 or less)" in decision.reason
    assert checkout.git("log", "-1", "--format=%s", BRANCH).startswith("Revert step 1")


def test_a_gain_that_chance_does_not_explain_is_merged(checkout: Checkout) -> None:
    outcome = checkout.done(*PAIRED)
    assert outcome.decision.action == "accept_new_best"
    assert "p = 0.250, accepted at 0.3 or less" in checkout.git("log", "-1", "--format=%b", BRANCH)


def test_close_cases_are_attempted_again_under_both_skills(checkout: Checkout) -> None:
    outcome = checkout.done(
        *SEQUENTIAL[:2], "evaluation.gate.confidence=0.8", "evaluation.gate.futility=0"
    )
    decision = outcome.decision
    assert decision.gate is not None
    assert (decision.gate.rounds, decision.gate.current_attempts) == (2, 2)
    assert decision.measurement is not None
    assert decision.measurement.attempts == {"a100": 2, "a104": 2}
    assert decision.incumbent is not None
    assert outcome.state.current.measurement.attempts == {"a100": 2, "a104": 2}
    assert outcome.state.current.measurement == decision.incumbent


@pytest.fixture
def broad(model_server: ModelServer) -> ModelServer:
    """Analysts who propose all rules at once, with a harmful one among them."""
    lines = [*RULES, "Leave out every answer."]
    plain = model_server.answer

    def answer(system: str, prompt: str) -> str:
        if "analyst_error" not in system and "merge" not in system:
            return plain(system, prompt)
        edits = [f'{{"op": "append", "content": "- {line}"}}' for line in lines]
        return f'{{"patch": {{"reasoning": "all", "edits": [{", ".join(edits)}]}}}}'

    model_server.answer = answer  # type: ignore[method-assign]
    return model_server


def test_one_harmful_edit_sinks_the_others_without_a_race(
    checkout: Checkout, broad: ModelServer
) -> None:
    outcome = checkout.done("optimizer.learning_rate=9")
    assert outcome.decision.action == "reject"


def test_a_race_keeps_the_edits_that_help(checkout: Checkout, broad: ModelServer) -> None:
    outcome = checkout.done(
        "optimizer.learning_rate=9", "evaluation.race.arms=16", "evaluation.race.tasks=4"
    )
    proposal = outcome.record.proposal
    assert proposal.race is not None
    *helpful, harmful = proposal.race.effects
    assert not harmful.kept
    assert proposal.edits[-1].status == "skipped_race"
    assert sum(one.kept for one in helpful) >= 3
    assert outcome.decision.action == "accept_new_best"
    assert "Leave out" not in checkout.show(BRANCH)
    assert "Race: " in checkout.git("log", "-1", "--format=%b", BRANCH)


@pytest.mark.parametrize(
    "overrides",
    [PAIRED, (*SEQUENTIAL, AFRESH), (*RACE, SOON)],
    ids=["paired", "sequential", "race"],
)
def test_an_interrupted_run_ends_with_the_trees_of_an_uninterrupted_one(
    workshop: Workshop, overrides: tuple[str, ...]
) -> None:
    """The target fails now and then; what was answered is not asked again."""
    # what fails ahead of its turn interrupts nothing
    strict, calls = ("evaluation.max_error_rate=0", "schedule.ahead=none"), 0
    whole, torn = workshop.checkout("whole"), workshop.checkout("torn")
    whole.run(*strict, *overrides)
    server, before = workshop.server, workshop.server.answered.total()

    def fail(prompt: str) -> tuple[int, str] | None:
        nonlocal calls
        calls += "Stage:" not in prompt
        return (500, "no") if "Stage:" not in prompt and calls % 9 == 0 else None

    server.trouble, interruptions = fail, 0
    while True:
        try:
            torn.run(*strict, *overrides)
            break
        except TooManyErrors:
            interruptions += 1
    assert interruptions > 2
    assert torn.trees() == whole.trees()
    assert server.answered.total() == 2 * before


TOLERANT = "evaluation.max_error_rate=0.9"


def refuse(server: ModelServer, *items: int) -> None:
    endings = tuple(f"Item {item} of kind {'abcd'[item % 4]}" for item in items)
    server.trouble = lambda prompt: (500, "no") if prompt.endswith(endings) else None


def test_verdict_is_over_the_tasks_that_both_sides_measured(
    checkout: Checkout, model_server: ModelServer
) -> None:
    refuse(model_server, 101)
    outcome = checkout.done(TOLERANT)
    assert outcome.decision.compared == 7
    assert outcome.decision.score_after == pytest.approx(2 / 7)
    assert outcome.state.current.measurement.errors == ("b101",)


def test_error_under_the_candidate_is_no_loss(
    checkout: Checkout, model_server: ModelServer
) -> None:
    checkout.step()
    model_server.plan = ("Kind a: a number begins with a.", "Kind b: a number begins with b.")
    refuse(model_server, 100, 104)
    outcome = checkout.done(TOLERANT)
    assert (outcome.decision.score_before, outcome.decision.compared) == (0.0, 6)
    assert outcome.decision.score_after == pytest.approx(2 / 6)
    assert outcome.decision.broken == ()


def test_without_a_task_in_common_there_is_no_verdict(
    checkout: Checkout, model_server: ModelServer
) -> None:
    refuse(model_server, 100, 101, 102, 103)
    checkout.step(TOLERANT)
    refuse(model_server, 104, 105, 106, 107)
    with pytest.raises(TooManyErrors, match="under both skills"):
        checkout.step(TOLERANT)
    refuse(model_server)
    checkout.done(TOLERANT)

"""The gate's policies in whole steps: what is measured, kept, spared and refused."""

import threading
from collections.abc import Callable

import pytest

from skillopt_ci.errors import TooManyErrors
from skillopt_ci.skill.document import sha256
from tests.conftest import BRANCH, HARMFUL, Checkout, ModelServer, Workshop

RULES = [f"Kind {kind}: a number begins with {kind}." for kind in "abcd"]
SOON = "evaluation.gate.look_every=2"


def selection_calls(server: ModelServer) -> int:
    return sum(n for prompt, n in server.answered.items() if "Item 10" in prompt.split("\n\n")[-1])


def test_a_candidate_without_a_chance_is_not_measured_to_the_end(checkout, model_server):
    checkout.step()
    model_server.plan = ("Of no use.",)
    before, outcome = selection_calls(model_server), checkout.done(SOON)
    decision = outcome.decision
    assert selection_calls(model_server) - before == 6
    assert (decision.action, decision.partial, decision.compared) == ("reject", True, 6)
    assert (decision.score_before, decision.score_after) == (0.25, 0.25)
    assert (decision.gate.end, decision.gate.saved) == ("certain", 2)
    assert checkout.history()[-1].planned == 8
    assert outcome.state.current.measurement.n == 8


def test_a_lot_that_is_asked_in_any_case_does_not_wait_for_the_one_before(checkout, model_server):
    """The first attempts are held back until one of the next lot has come."""
    checkout.step("train.num_epochs=1")
    three, seen, waited = threading.Event(), set[str](), list[bool]()

    def trouble(prompt: str) -> None:
        if "Stage:" not in prompt and "Item 10" in prompt.rsplit("\n\n", maxsplit=1)[-1]:
            seen.add(prompt)
            if len(seen) > 2:
                three.set()
            waited.append(three.wait(60))

    model_server.trouble = trouble
    checkout.done(SOON)
    assert len(seen) > 2
    assert all(waited)


def test_a_lot_begins_when_the_answers_so_far_are_enough(checkout, model_server):
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
            waited.append(second_lot.wait(60))
        elif number > 6:
            second_lot.set()

    model_server.trouble, model_server.plan = trouble, (RULES[1],)
    # six tasks are unsolved: a gain on one of them, and the two others are needed
    assert checkout.done("evaluation.gate.look_every=6").decision.stays
    assert waited == [True]


def test_a_partial_finding_is_completed_when_the_candidate_comes_again(checkout, model_server):
    checkout.step()
    model_server.plan = ("Of no use.",)
    checkout.step(SOON)
    model_server.plan = ()
    checkout.step()
    model_server.plan = ("Of no use.",)
    before = selection_calls(model_server)
    refuse(model_server, 104)
    outcome = checkout.done("evaluation.gate.early_stop=false", "cache.enabled=false", TOLERANT)
    assert selection_calls(model_server) - before == 1
    assert outcome.decision.compared == 7
    # all eight count at worst, not only the two that were left
    assert outcome.decision.measurement.pessimistic_hard == 1 / 8


def test_an_interrupted_run_ends_with_the_trees_of_an_uninterrupted_one(workshop):
    """The target fails now and then; what was answered is not asked again."""
    # what fails ahead of its turn interrupts nothing
    strict, calls = ("evaluation.max_error_rate=0", "schedule.ahead=none", SOON), 0
    whole, torn = workshop.checkout("whole"), workshop.checkout("torn")
    whole.run(*strict)
    server, before = workshop.server, workshop.server.answered.total()

    def fail(prompt: str) -> tuple[int, str] | None:
        nonlocal calls
        calls += "Stage:" not in prompt
        return (500, "no") if "Stage:" not in prompt and calls % 9 == 0 else None

    server.trouble, interruptions = fail, 0
    while True:
        try:
            torn.run(*strict)
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


def test_verdict_is_over_the_tasks_that_both_sides_measured(checkout, model_server):
    refuse(model_server, 101)
    outcome = checkout.done(TOLERANT)
    assert outcome.decision.compared == 7
    assert outcome.decision.score_after == pytest.approx(2 / 7)
    assert outcome.state.current.measurement.errors == ("b101",)


def test_error_under_the_candidate_is_no_loss(checkout, model_server):
    checkout.step()
    model_server.plan = ("Kind a: a number begins with a.", "Kind b: a number begins with b.")
    refuse(model_server, 100, 104)
    outcome = checkout.done(TOLERANT)
    assert (outcome.decision.score_before, outcome.decision.compared) == (0.0, 6)
    assert outcome.decision.score_after == pytest.approx(2 / 6)
    assert outcome.decision.broken == ()


def test_errors_are_a_share_of_all_attempts_at_a_task(checkout, model_server):
    """Four of the first eight attempts fail, which are four of sixteen in the end."""
    twice = ("rollout.attempts=2", "evaluation.max_error_rate=0.3", SOON)
    checkout.step(*twice)
    model_server.plan = (RULES[1],)
    refuse(model_server, 102, 103)
    assert checkout.done(*twice).decision.stays


def test_without_a_task_in_common_there_is_no_verdict(checkout, model_server):
    refuse(model_server, 100, 101, 102, 103)
    checkout.step(TOLERANT)
    refuse(model_server, 104, 105, 106, 107)
    with pytest.raises(TooManyErrors, match="under both skills"):
        checkout.step(TOLERANT)
    refuse(model_server)
    checkout.done(TOLERANT)


# The gate's options in whole steps.

OPEN = "evaluation.use_gate=false"
DENSE = "evaluation.use_semantic_density=true"
SHORT = "evaluation.ties=prefer_shorter"
WORDY = "# Items\n\nThese are only words.\n"


def test_an_open_gate_takes_everything_over_and_only_a_gain_is_the_best(checkout, model_server):
    outcome = checkout.done(OPEN)
    best = checkout.show(BRANCH)
    assert outcome.state.best == outcome.state.current
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == best
    model_server.plan = (HARMFUL,)
    outcome = checkout.done(OPEN)
    assert (outcome.decision.action, outcome.decision.score_after) == ("force_accept", 0.0)
    assert HARMFUL in checkout.show(BRANCH)
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == best
    assert (outcome.state.current.step, outcome.state.best.step) == (2, 1)


def test_density_is_part_of_every_score(checkout, model_server):
    model_server.plan = ("Always verify.",)
    outcome = checkout.done(DENSE)
    assert (outcome.decision.action, outcome.decision.score_before) == ("accept_new_best", 0.0)
    assert outcome.decision.score_after == pytest.approx(0.05 * 2 / 3)
    assert outcome.state.current.measurement.score == outcome.decision.score_after
    assert outcome.state.current.measurement.hard == 0.0


@pytest.fixture
def wordy(workshop: Workshop, model_server: ModelServer) -> Callable[[str], Checkout]:
    """A skill of which the optimizer wants a line replaced."""

    def make(line: str) -> Checkout:
        model_server.plan = (line,)
        edit = {"op": "replace", "target": "These are only words."}
        model_server.edit = lambda content: {**edit, "content": content}
        return workshop.checkout(skill=WORDY)

    return make


def test_a_shorter_tie_is_merged_where_that_is_preferred(wordy):
    checkout = wordy("Words.")
    outcome = checkout.done(SHORT)
    assert outcome.decision.action == "accept_new_best"
    assert outcome.decision.reason.endswith("but 3 words shorter")
    assert outcome.state.best.sha256 == sha256("# Items\n\nWords.\n")
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == "# Items\n\nWords.\n"


@pytest.mark.parametrize(
    ("line", "option"), [("Words.", "evaluation.ties=reject"), ("These are just words.", SHORT)]
)
def test_other_ties_are_reverted(wordy, line, option):
    checkout = wordy(line)
    assert checkout.done(option).decision.action == "reject"
    assert checkout.show(BRANCH) == WORDY

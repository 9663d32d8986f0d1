"""The gate's options in whole steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.skill.document import sha256

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Checkout, ModelServer, Workshop

BRANCH = "skillopt/demo"
OPEN = "evaluation.use_gate=false"
DENSE = "evaluation.use_semantic_density=true"
SHORT = "evaluation.ties=prefer_shorter"
HARMFUL = "Leave out every answer."
WORDY = "# Items\n\nThese are only words.\n"


def test_an_open_gate_takes_a_loss_over_and_keeps_the_best(checkout, model_server):
    checkout.step()
    best = checkout.show(BRANCH)
    model_server.plan = (HARMFUL,)
    outcome = checkout.done(OPEN)
    assert (outcome.decision.action, outcome.decision.score_after) == ("force_accept", 0.0)
    assert HARMFUL in checkout.show(BRANCH)
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == best
    assert (outcome.state.current.step, outcome.state.best.step) == (2, 1)


def test_an_open_gate_makes_a_gain_the_best(checkout):
    outcome = checkout.done(OPEN)
    assert outcome.state.best == outcome.state.current
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == checkout.show(BRANCH)


def test_density_is_part_of_every_score(checkout, model_server):
    model_server.plan = ("Always verify.",)
    outcome = checkout.done(DENSE)
    assert outcome.decision.action == "accept_new_best"
    assert outcome.decision.score_before == 0.0
    assert outcome.decision.score_after == pytest.approx(0.05 * 2 / 3)
    assert outcome.state.current.measurement.score == outcome.decision.score_after
    assert outcome.state.current.measurement.hard == 0.0


def test_switching_density_on_measures_again(checkout):
    checkout.step()
    checkout.step(DENSE)
    assert checkout.kinds() == ["start", "step", "measure", "step"]


@pytest.fixture
def wordy(workshop: Workshop, model_server: ModelServer) -> Callable[[str], Checkout]:
    """A skill of which the optimizer wants a line replaced."""

    def make(line: str) -> Checkout:
        model_server.plan = (line,)
        model_server.edit = lambda content: {
            "op": "replace",
            "target": "These are only words.",
            "content": content,
        }
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
    outcome = checkout.done(option)
    assert outcome.decision.action == "reject"
    assert checkout.show(BRANCH) == WORDY

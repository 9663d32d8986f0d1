"""Candidates that an earlier run left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer

BRANCH = "skillopt/demo"
CANDIDATE = "skillopt-candidate/demo"


@pytest.fixture
def in_flight(checkout: Checkout) -> str:
    """The second step's candidate, which nobody has judged."""
    checkout.step()
    checkout.stop()
    return checkout.ref(CANDIDATE)


def test_step_in_flight_is_judged_without_proposing_again(
    checkout: Checkout, in_flight: str, model_server: ModelServer
) -> None:
    model_server.prompts.clear()
    outcome = checkout.done("cache.enabled=false")
    assert outcome.record.step == 2
    assert checkout.git("rev-parse", f"{outcome.commit}^") == in_flight
    assert model_server.optimizer_prompts == []
    assert all("Item 10" in prompt for prompt in model_server.prompts)


def test_reviewers_commit_sets_the_candidate_aside(checkout: Checkout, in_flight: str) -> None:
    cost = checkout.record(2, in_flight).usage
    checkout.commit("skills/SKILL.md", "# Other\n", branch=BRANCH)
    outcome = checkout.done()
    assert checkout.kinds() == ["start", "step", "measure", "set_aside", "step"]
    assert outcome.record.step == 2
    assert checkout.ref(CANDIDATE) == ""
    aside = checkout.git("log", "--format=%H", "--grep=Set aside", BRANCH)
    assert checkout.show(aside) == "# Other\n"
    assert checkout.git("rev-parse", f"{aside}^2") == in_flight
    assert checkout.history()[3].usage == cost
    assert checkout.state().usage.calls == sum(one.usage.calls for one in checkout.history())


def test_candidate_that_is_part_of_the_branch_is_only_tidied_away(checkout: Checkout) -> None:
    checkout.step()
    merged = checkout.git("rev-parse", f"{BRANCH}^2")
    checkout.git("update-ref", f"refs/heads/{CANDIDATE}", merged)
    checkout.step()
    assert checkout.kinds() == ["start", "step", "step"]
    assert checkout.ref(CANDIDATE) == ""


def test_candidate_left_after_the_last_step_is_set_aside(
    checkout: Checkout, in_flight: str
) -> None:
    checkout.commit("README.md", "about\n", branch=BRANCH)
    assert checkout.step("train.num_epochs=1", "train.batch_size=8") is None
    assert checkout.kinds() == ["start", "step", "set_aside"]
    assert checkout.contains(in_flight)

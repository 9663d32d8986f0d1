"""The costly half of a step when something runs out: a budget, or the server's good health."""

from __future__ import annotations

import pytest

from skillopt_ci.errors import BudgetExhausted, TooManyErrors
from skillopt_ci.model.types import ModelUnavailable

BRANCH = "skillopt/demo"
CANDIDATE = "skillopt-candidate/demo"

#: A step's calls: 8 for the baseline, then 4 rollouts, 2 analysts, 1 merge, 8 for the candidate.
IN_BASELINE, IN_ROLLOUT, IN_REFLECT, IN_SELECTION = 5, 10, 13, 20


@pytest.mark.parametrize("calls", [IN_BASELINE, IN_ROLLOUT, IN_REFLECT, IN_SELECTION])
def test_raised_budget_goes_on_without_paying_again(checkout, model_server, calls):
    with pytest.raises(BudgetExhausted, match=r"budget\.run\.calls"):
        checkout.step(f"budget.run.calls={calls}")
    assert model_server.answered.total() == calls
    checkout.done()
    assert model_server.most_answers == 1
    assert checkout.state().usage.calls == model_server.answered.total() == 23


def test_used_up_budget_stays_used_up(checkout, model_server):
    for _ in range(2):
        with pytest.raises(BudgetExhausted, match=r"budget\.step\.calls"):
            checkout.step("budget.step.calls=10")
    assert model_server.answered.total() == 8 + 10


def test_budget_of_tokens_ends_a_step(checkout):
    with pytest.raises(BudgetExhausted, match=r"budget\.step\.tokens"):
        checkout.step("budget.step.tokens=160")
    assert checkout.kinds() == ["start"]


def test_candidate_is_kept_when_the_budget_ends_its_measurement(checkout):
    with pytest.raises(BudgetExhausted):
        checkout.step("budget.run.calls=20")
    candidate = checkout.ref(CANDIDATE)
    assert candidate
    checkout.step()
    assert checkout.git("rev-parse", f"{BRANCH}^2") == candidate


def test_too_many_failing_rollouts_stop_the_step(checkout, model_server):
    checkout.step()
    before = checkout.ref(BRANCH)
    model_server.trouble = lambda prompt: (500, "out of order") if "Item " in prompt else None
    with pytest.raises(TooManyErrors, match=r"4 of 4 training tasks.*out of order"):
        checkout.step()
    assert checkout.ref(BRANCH) == before
    assert checkout.ref(CANDIDATE) == ""


def test_too_many_failing_measurements_keep_the_candidate(checkout, model_server):
    checkout.step()
    model_server.trouble = lambda prompt: (500, "out of order") if "Item 10" in prompt else None
    with pytest.raises(TooManyErrors, match="8 of 8 selection tasks"):
        checkout.step()
    assert checkout.ref(CANDIDATE)
    model_server.trouble = lambda prompt: None
    outcome = checkout.done()
    assert outcome.record.step == 2
    assert model_server.most_answers == 1


def test_failing_rollout_is_no_failure_of_the_model(checkout, model_server):
    model_server.trouble = lambda prompt: (
        (500, "no") if prompt.endswith("Item 4 of kind a") else None
    )
    outcome = checkout.done("evaluation.max_error_rate=0.5", "train.batch_size=8")
    rollout = outcome.record.proposal.rollout
    assert (rollout.n, rollout.errors) == (7, 1)
    assert "Item 4 of kind a" not in "".join(model_server.optimizer_prompts)


def test_unreachable_optimizer_ends_the_step(checkout, model_server):
    model_server.trouble = lambda prompt: (500, "away") if "Stage:" in prompt else None
    with pytest.raises(ModelUnavailable, match="away"):
        checkout.step()
    assert checkout.kinds() == ["start"]

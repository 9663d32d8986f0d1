"""What steps of an epoch tell the following ones, across restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.prompts.library import Prompts

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer

HARMFUL = "Leave out every answer."
RULE = "Kind a: a number begins with a."


def analyst_prompts(server: ModelServer) -> list[str]:
    return [prompt for prompt in server.optimizer_prompts if "Stage: analyst" in prompt]


def test_rejected_edit_is_told_to_the_epochs_next_step(
    checkout: Checkout, model_server: ModelServer
) -> None:
    model_server.plan = (HARMFUL, RULE)
    checkout.step("evaluation.gate_metric=soft")
    model_server.prompts.clear()
    checkout.step("evaluation.gate_metric=soft")
    told = analyst_prompts(model_server)
    assert told
    assert all("### Step 1 — REJECT (4/4 failed)" in prompt for prompt in told)
    assert all("Rejected edits" in prompt and HARMFUL in prompt for prompt in told)


def test_merged_edit_is_not_told_as_rejected(checkout: Checkout, model_server: ModelServer) -> None:
    checkout.step()
    model_server.prompts.clear()
    checkout.step()
    told = analyst_prompts(model_server)
    assert all("### Step 1 — ACCEPT_NEW_BEST (4/4 failed)" in prompt for prompt in told)
    assert not any("Rejected edits" in prompt for prompt in told)


def test_new_epoch_begins_without_memory(checkout: Checkout, model_server: ModelServer) -> None:
    model_server.plan = (HARMFUL,)
    checkout.run("train.num_epochs=1")
    model_server.prompts.clear()
    checkout.step()
    assert not any("### Step" in prompt for prompt in analyst_prompts(model_server))


def test_best_text_is_known_when_it_is_proposed_again(
    checkout: Checkout, model_server: ModelServer
) -> None:
    checkout.step()
    best = checkout.show("skillopt/demo")
    checkout.commit("skills/SKILL.md", "# Items\n", branch="skillopt/demo")
    outcome = checkout.done("cache.path=another.sqlite")
    assert (outcome.decision.reused_from, outcome.decision.action) == (1, "accept")
    assert checkout.show("skillopt/demo") == best
    assert model_server.answered[f"{measured_with(best)}\n\nItem 100 of kind a"] == 1


def measured_with(skill: str) -> str:
    return Prompts.load().target(skill)

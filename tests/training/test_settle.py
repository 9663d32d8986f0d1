"""The current skill is measured when its score is not valid any more, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.skill.document import sha256

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillopt_ci.progress import Event, Observer
    from tests.conftest import Checkout, ModelServer

BRANCH = "skillopt/demo"
SKILL = "skills/SKILL.md"
WITH_TWO_RULES = "# Items\n\n- Kind a: a number begins with a.\n- Kind b: a number begins with b.\n"


def test_reviewers_commit_is_adopted_and_measured(checkout: Checkout) -> None:
    checkout.step()
    theirs = checkout.commit(SKILL, WITH_TWO_RULES, branch=BRANCH)
    outcome = checkout.done()
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.contains(theirs)
    assert outcome.decision.score_before == 0.5
    assert outcome.record.proposal.skill_before == sha256(WITH_TWO_RULES)
    measured = checkout.history()[2]
    assert (measured.score_before, measured.score_after) == (0.25, 0.5)
    assert "changed by hand" in measured.reason
    assert checkout.state().best.origin == "edited by hand"


def test_reviewers_change_for_the_worse_does_not_become_best(checkout: Checkout) -> None:
    checkout.step()
    best = checkout.show(BRANCH)
    checkout.commit(SKILL, "# Nothing\n", branch=BRANCH)
    checkout.step("train.num_epochs=1")
    state = checkout.state()
    assert state.best.sha256 == sha256(best)
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == best


def test_reviewers_commit_to_another_file_needs_no_measurement(checkout: Checkout) -> None:
    checkout.step()
    checkout.commit("README.md", "about\n", branch=BRANCH)
    checkout.step()
    assert checkout.kinds() == ["start", "step", "step"]
    assert checkout.show(BRANCH, "README.md") == "about\n"


def other_tasks(checkout: Checkout) -> None:
    path = "tasks/selection.jsonl"
    text = (checkout.folder / path).read_text(encoding="utf-8")
    checkout.write(path, "".join(text.splitlines(keepends=True)[:4]))


def other_scorer(checkout: Checkout) -> None:
    reconfigure(checkout, "type: exact", "type: normalized")


def other_target(checkout: Checkout) -> None:
    reconfigure(checkout, "target: {", "target: {temperature: 0.5, ")


def other_metric(checkout: Checkout) -> None:
    reconfigure(checkout, "gradient:", "evaluation: {gate_metric: soft}\ngradient:")


def reconfigure(checkout: Checkout, old: str, new: str) -> None:
    text = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    assert old in text
    checkout.write("skillopt.yaml", text.replace(old, new))


@pytest.mark.parametrize("change", [other_tasks, other_scorer, other_target, other_metric])
def test_change_of_what_scores_depend_on_has_the_skill_measured_again(
    checkout: Checkout, change: Callable[[Checkout], None]
) -> None:
    checkout.step()
    old = checkout.state().measured_under
    change(checkout)
    checkout.step()
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.state().measured_under != old
    decision = checkout.record(2).decision
    assert decision is not None
    assert decision.measured_under == checkout.state().measured_under


def test_best_skill_is_measured_again_too(checkout: Checkout, model_server: ModelServer) -> None:
    checkout.step()
    checkout.commit(SKILL, "# Nothing\n", branch=BRANCH)
    checkout.step("train.num_epochs=1")
    other_target(checkout)
    model_server.prompts.clear()
    checkout.step()
    assert "measure" in checkout.kinds()[-2:]
    again = [prompt for prompt in model_server.prompts if prompt.endswith("Item 100 of kind a")]
    assert sum("# Nothing" in prompt for prompt in again) >= 1
    assert sum("Kind a:" in prompt and "# Items" in prompt for prompt in again) == 1
    assert checkout.state().best.measurement.score == 0.25


def test_other_settings_need_no_measurement_but_are_told(
    checkout: Checkout, events: list[Event], observer: Observer
) -> None:
    checkout.step(observer=observer)
    assert not any("Changed since" in str(event) for event in events)
    checkout.step("optimizer.learning_rate=3", observer=observer)
    assert any("optimizer.learning_rate (4 → 3)" in str(event) for event in events)
    assert checkout.kinds() == ["start", "step", "step"]
    first, second = checkout.record(1).proposal, checkout.record(2).proposal
    assert first.config_sha256 != second.config_sha256
    message = checkout.git("log", "-1", "--format=%B", BRANCH)
    assert f"Skillopt-Config-Sha256: {second.config_sha256}" in message

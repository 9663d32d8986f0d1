"""What an epoch's end proposes, before anybody judges it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.skill.regions import SLOW_UPDATE, region_text
from skillopt_ci.training.slow_update import compare_epochs, earlier_skill, first_epoch, later_epoch
from skillopt_ci.training.trainer import prepare

if TYPE_CHECKING:
    from skillopt_ci.ledger.records import BoundaryRecord
    from skillopt_ci.progress import Event
    from skillopt_ci.training.slow_update import Pair
    from tests.conftest import Checkout


RULE = "- Kind d: a number begins with d."
ENDS = ("optimizer.use_slow_update=true", "optimizer.use_meta_skill=true")


@pytest.fixture
def stepped(checkout: Checkout) -> Checkout:
    checkout.step()
    return checkout


def later(checkout: Checkout, *overrides: str) -> tuple[str, BoundaryRecord]:
    session = checkout.session(*ENDS, *overrides)

    async def work() -> tuple[str, BoundaryRecord]:
        checkout, _ = await prepare(session)
        async with session.models("test") as models:
            return await later_epoch(session, checkout, 2, models)

    return asyncio.run(work())


@pytest.mark.parametrize("slow", [True, False])
def test_first_epoch_prepares_only_what_is_used(stepped, slow):
    session = stepped.session(ENDS[1], f"optimizer.use_slow_update={slow}")
    checkout, _ = asyncio.run(prepare(session))
    skill, record = first_epoch(session, checkout)
    assert record.changed is slow is (region_text(skill, SLOW_UPDATE) == "")
    assert record.meta_skill is not None
    assert record.meta_skill.action == "skip_first_epoch"


def test_guidance_and_memory_are_recorded_with_the_comparison(stepped, model_server):
    model_server.guidance, model_server.memory = RULE, "- Short rules."
    skill, record = later(stepped)
    assert region_text(skill, SLOW_UPDATE) == RULE
    assert record.changed
    assert (record.previous_hard, record.current_hard) == (0.0, 0.25)
    assert {pair.category for pair in record.pairs} == {"improved", "persistent_fail"}
    assert record.meta_skill is not None
    assert record.meta_skill.content == "- Short rules."


def test_both_texts_are_written_on_the_skill_before_the_guidance(stepped, model_server):
    model_server.guidance = RULE
    later(stepped)
    asked = [one for one in model_server.optimizer_prompts if "## Comparison" in one]
    assert len(asked) == 2
    assert not any(RULE in prompt for prompt in asked)


def test_previous_guidance_and_memory_are_shown(checkout, model_server):
    checkout.run("train.num_epochs=2", *ENDS)
    model_server.guidance, model_server.memory = RULE, "- Short rules."
    checkout.run("train.num_epochs=3", *ENDS)
    model_server.prompts.clear()
    checkout.run("train.num_epochs=4", *ENDS)
    slow, meta = (
        next(one for one in model_server.optimizer_prompts if f"Stage: {stage}" in one)
        for stage in ("slow_update", "meta_skill")
    )
    assert f"## Previous Guidance\n\n```\n{RULE}\n```" in slow
    assert "## Previous Meta Skill\n\n```\n- Short rules.\n```" in meta


def test_without_wanted_pairs_nobody_is_asked(stepped, model_server):
    stepped.commit("skills/SKILL.md", "# Items\n", branch="skillopt/demo")
    _, record = later(stepped, "optimizer.longitudinal_pair_policy=changed")
    assert (record.pairs, record.previous_hard) == ((), None)
    assert not record.changed
    assert not any("## Comparison" in one for one in model_server.optimizer_prompts)


def test_references_in_the_comparison_are_those_of_training_tasks(stepped, model_server):
    later(stepped)
    shown = "\n".join(one for one in model_server.optimizer_prompts if "## Comparison" in one)
    assert "- d3\n" in shown
    assert "d103" not in shown
    assert "d203" not in shown


# The comparison of two epochs' skills, on real repositories.

OLD = "# Items\n"
NEW = "# Items\n\n- Kind a: a number begins with a.\n"


def compare(checkout: Checkout, events: list[Event], *overrides: str) -> tuple[Pair, ...]:
    session = checkout.session(*overrides, observer=events.append)

    async def work() -> tuple[Pair, ...]:
        async with session.models("test") as models:
            return await compare_epochs(session, OLD, NEW, 2, models)

    return asyncio.run(work())


@pytest.mark.parametrize(("policy", "found"), [("mixed", 8), ("changed", 2), ("unchanged", 6)])
def test_policy_decides_what_is_kept(checkout, policy, found):
    pairs = compare(checkout, [], f"optimizer.longitudinal_pair_policy={policy}")
    assert len(pairs) == found


def test_sample_is_as_large_as_configured(checkout):
    assert len(compare(checkout, [], "optimizer.slow_update_samples=3")) == 3


def test_progress_counts_both_sides(checkout):
    events: list[Event] = []
    compare(checkout, events)
    assert events[0] == StageStarted("compare", 16)
    assert sum(isinstance(event, StageAdvanced) for event in events) == 16
    assert events[-1] == StageFinished("compare", "6 persistent fail, 2 improved")


def test_every_attempt_is_made_under_both_skills(checkout):
    events: list[Event] = []
    pairs = compare(checkout, events, "rollout.attempts=3")
    assert events[0] == StageStarted("compare", 48)
    assert {len(side.attempts) for pair in pairs for side in (pair.before, pair.after)} == {3}


def test_before_any_end_the_initial_skill_is_the_earlier_one(checkout):
    checkout.step()
    session = checkout.session()
    checkout, _ = asyncio.run(prepare(session))
    assert checkout.skill != OLD
    assert earlier_skill(session, checkout, 2) == OLD

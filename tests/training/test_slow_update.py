"""What an epoch's end proposes, before anybody judges it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.skill.regions import SLOW_UPDATE, region_text
from skillopt_ci.training.slow_update import first_epoch, later_epoch
from skillopt_ci.training.trainer import prepare

if TYPE_CHECKING:
    from skillopt_ci.ledger.records import BoundaryRecord
    from tests.conftest import Checkout, ModelServer

RULE = "- Kind d: a number begins with d."
ENDS = ("optimizer.use_slow_update=true", "optimizer.use_meta_skill=true")


@pytest.fixture
def stepped(checkout: Checkout) -> Checkout:
    checkout.step()
    return checkout


def later(checkout: Checkout, *overrides: str) -> tuple[str, BoundaryRecord]:
    session = checkout.session(*ENDS, *overrides)

    async def work() -> tuple[str, BoundaryRecord]:
        standing, _ = await prepare(session)
        async with session.bench("test") as bench:
            return await later_epoch(session, standing, 2, bench)

    return asyncio.run(work())


@pytest.mark.parametrize("slow", [True, False])
def test_first_epoch_prepares_only_what_is_used(stepped: Checkout, slow: bool) -> None:
    session = stepped.session(ENDS[1], f"optimizer.use_slow_update={slow}")
    standing, _ = asyncio.run(prepare(session))
    skill, record = first_epoch(session, standing)
    assert record.changed is slow is (region_text(skill, SLOW_UPDATE) == "")
    assert record.meta_skill is not None
    assert record.meta_skill.action == "skip_first_epoch"


def test_guidance_and_memory_are_recorded_with_the_comparison(
    stepped: Checkout, model_server: ModelServer
) -> None:
    model_server.guidance, model_server.memory = RULE, "- Short rules."
    skill, record = later(stepped)
    assert region_text(skill, SLOW_UPDATE) == RULE
    assert record.changed
    assert (record.previous_hard, record.current_hard) == (0.0, 0.25)
    assert {pair.category for pair in record.pairs} == {"improved", "persistent_fail"}
    assert record.meta_skill is not None
    assert record.meta_skill.content == "- Short rules."


def test_both_texts_are_written_on_the_skill_before_the_guidance(
    stepped: Checkout, model_server: ModelServer
) -> None:
    model_server.guidance = RULE
    later(stepped)
    asked = [one for one in model_server.optimizer_prompts if "## Comparison" in one]
    assert len(asked) == 2
    assert not any(RULE in prompt for prompt in asked)


def test_previous_guidance_and_memory_are_shown(
    checkout: Checkout, model_server: ModelServer
) -> None:
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


def test_without_wanted_pairs_nobody_is_asked(stepped: Checkout, model_server: ModelServer) -> None:
    stepped.commit("skills/SKILL.md", "# Items\n", branch="skillopt/demo")
    _, record = later(stepped, "optimizer.longitudinal_pair_policy=changed")
    assert (record.pairs, record.previous_hard) == ((), None)
    assert not record.changed
    assert not any("## Comparison" in one for one in model_server.optimizer_prompts)


def test_references_in_the_comparison_are_those_of_training_tasks(
    stepped: Checkout, model_server: ModelServer
) -> None:
    later(stepped)
    shown = "\n".join(one for one in model_server.optimizer_prompts if "## Comparison" in one)
    assert "- d3\n" in shown
    assert "d103" not in shown
    assert "d203" not in shown

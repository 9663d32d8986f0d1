"""What the optimizer is asked at an epoch's end, and what is made of its reply."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.config.config import Gradient
from skillopt_ci.errors import SkilloptError
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.progress import Event, Note, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.training.ask import Desk
from skillopt_ci.training.slow_update import Pair, Side, Stage, Written, write

Make = Callable[..., Any]
Ask = Callable[..., Written]

KEYS = {"slow_update": "slow_update_content", "meta_skill": "meta_skill_content"}


@pytest.fixture
def pairs(make_task: Make, make_rollout: Make) -> list[Pair]:
    return [Pair(make_task("a"), Side((make_rollout("a"),)), Side((make_rollout("a"),)))]


@pytest.fixture
def ask(prompts: Prompts, observer: Observer, pairs: list[Pair]) -> Ask:
    def run(
        client: Any, stage: Stage, before: str = "", given: list[Pair] | None = None
    ) -> Written:
        desk, skills = Desk(client, prompts, observer), ("# Old\n", "# New\n")
        shown = pairs if given is None else given
        return asyncio.run(write(stage, before, skills, shown, desk, Gradient()))

    return run


@pytest.mark.parametrize("stage", KEYS)
def test_reply_is_read(scripted: Any, ask: Ask, stage: str) -> None:
    reply = json.dumps({"reasoning": "why", KEYS[stage]: "- Check.\n"})
    client = scripted(lambda request: f"Here it is:\n```json\n{reply}\n```")
    assert ask(client, stage) == Written("- Check.", "why")
    assert client.requests[0].stage == stage


@pytest.mark.parametrize("stage", KEYS)
def test_prompt_shows_both_skills_and_the_comparison(scripted: Any, ask: Ask, stage: str) -> None:
    client = scripted(lambda request: json.dumps({KEYS[stage]: "x"}))
    ask(client, stage, before="- Old words.")
    (prompt,) = client.prompts
    assert "## Previous Epoch's Skill\n\n```markdown\n# Old" in prompt
    assert "## Current Skill\n\n```markdown\n# New" in prompt
    assert "```\n- Old words.\n```" in prompt
    assert "1 task: 0 regressed, 1 persistent fail" in prompt


def test_first_slow_update_is_told_so(scripted: Any, ask: Ask) -> None:
    client = scripted(lambda request: json.dumps({"slow_update_content": ""}))
    assert ask(client, "slow_update") == Written()
    assert "There is none yet: this is the first slow update" in client.prompts[0]


def test_markers_in_a_reply_are_taken_out(scripted: Any, ask: Ask) -> None:
    text = "<!-- SLOW_UPDATE_END -->\n- Check.\n<!-- APPENDIX_START -->"
    client = scripted(lambda request: json.dumps({"slow_update_content": text}))
    assert ask(client, "slow_update").content == "- Check."


@pytest.mark.parametrize("reply", ["no idea", '{"content": "x"}', '{"slow_update_content": null}'])
def test_unusable_reply_is_asked_for_again_and_then_writes_nothing(
    scripted: Any, ask: Ask, events: list[Event], reply: str
) -> None:
    client = scripted(lambda request: reply)
    assert ask(client, "slow_update") == Written()
    assert len(client.requests) == 2
    assert any(isinstance(event, Note) and event.level == "warning" for event in events)


def test_refusal_writes_nothing(scripted: Any, ask: Ask) -> None:
    assert ask(scripted(lambda request: ModelRefusal("content filter")), "meta_skill") == Written()


def test_outage_is_raised(scripted: Any, ask: Ask) -> None:
    with pytest.raises(SkilloptError, match="gone"):
        ask(scripted(lambda request: ModelUnavailable("gone")), "slow_update")


@pytest.mark.parametrize("stage", KEYS)
def test_without_pairs_nobody_is_asked(scripted: Any, ask: Ask, stage: str) -> None:
    client = scripted(lambda request: "never")
    assert ask(client, stage, given=[]) == Written()
    assert client.requests == []

import asyncio

import pytest

from skillopt_ci.config.models import ModelRole
from skillopt_ci.demo.models import SimulatedClient
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Usage

CONFIG = ModelRole(provider="simulated", model="simulated-target", max_output_tokens=2)
ASKED = ChatRequest(Role.TARGET, "rollout", (Message("user", "x" * 40),))


def _reply(config: ModelRole, request: ChatRequest = ASKED) -> ChatReply:
    return asyncio.run(SimulatedClient(config, Role.TARGET).complete(request))


def test_a_reply_costs_nothing_and_counts_tokens() -> None:
    usage = Usage(calls=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.0)
    assert _reply(CONFIG).usage == usage


def test_the_smaller_limit_holds() -> None:
    strict = ChatRequest(ASKED.role, ASKED.stage, ASKED.messages, max_output_tokens=1)
    assert len(_reply(CONFIG, strict).text) == 4


def test_the_stage_does_not_change_the_answer() -> None:
    other = ChatRequest(ASKED.role, "evaluation", ASKED.messages)
    assert _reply(CONFIG) == _reply(CONFIG, other)


def test_an_unknown_model_is_refused_before_any_call() -> None:
    config = ModelRole(provider="simulated", model="gpt")
    with pytest.raises(ModelSetupError, match=r"model\.judge\.model"):
        SimulatedClient(config, Role.JUDGE)

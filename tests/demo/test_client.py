import asyncio

import pytest

from skillopt_ci.config.models import ModelRole
from skillopt_ci.demo.client import MODELS, SimulatedClient, complete, find_model
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatRequest, Role, Usage

CONFIG = ModelRole(provider="simulated", model="simulated-target")
REQUEST = ChatRequest(Role.TARGET, "rollout", (Message("user", "x" * 40),))
NOTE = (Message("user", "Note: Paid 480 EUR to Oak Tower on 7 March 2026."),)


@pytest.mark.parametrize("model", MODELS)
def test_complete_repeats_itself(model):
    first = complete(model, NOTE, seed=1)
    assert first == complete(model, NOTE, seed=1)
    assert first.finish_reason == "stop"


def test_find_model_suggests_the_nearest_name():
    with pytest.raises(ModelSetupError, match="Did you mean 'simulated-target'") as raised:
        find_model("simulated-tagret", where="model.target.model")
    assert raised.value.message.startswith("model.target.model: ")
    with pytest.raises(ModelSetupError, match=r"model\.judge\.model"):
        SimulatedClient(ModelRole(provider="simulated", model="gpt"), Role.JUDGE)


def test_client_counts_tokens_that_cost_nothing():
    reply = asyncio.run(SimulatedClient(CONFIG, Role.TARGET).complete(REQUEST))
    assert reply.usage == Usage(calls=1, prompt_tokens=10, completion_tokens=24, cost_usd=0.0)

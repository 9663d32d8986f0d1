import pytest

from skillopt_ci.errors import InfrastructureError, ModelSetupError
from skillopt_ci.model.client import ModelUnavailable
from skillopt_ci.rollout.solvers.agent_failure import failure
from skillopt_ci.rollout.steps import AgentError

BUSY = [
    "API Error: 529 {'type':'overloaded_error'}",
    "You exceeded your current quota, please check your plan",
    "429 Too Many Requests",
    "stream disconnected before completion",
    "request to https://x failed, reason: connect ECONNREFUSED",
    "Claude AI usage limit reached|1750000000",
    "getaddrinfo EAI_AGAIN api.example.com",
]
NO_KEY = [
    "Invalid API key · Please run /login",
    "unexpected status 401 Unauthorized",
    "Please set an Auth method in your settings.json",
    "Error: No authentication information found.",
]


@pytest.mark.parametrize("told", BUSY)
def test_a_server_in_trouble_is_no_failure_of_the_agent(told: str) -> None:
    raised = failure("codex", "codex", 1, told, worked=True)
    assert isinstance(raised, ModelUnavailable)
    assert isinstance(raised, InfrastructureError)


@pytest.mark.parametrize("told", NO_KEY)
def test_a_missing_key_stops_the_run(told: str) -> None:
    assert isinstance(failure("codex", "codex", 1, told, worked=False), ModelSetupError)


@pytest.mark.parametrize("told", NO_KEY)
def test_but_not_once_the_agent_has_worked(told: str) -> None:
    assert isinstance(failure("codex", "codex", 1, told, worked=True), AgentError)


@pytest.mark.parametrize("status", [126, 127])
def test_a_program_that_cannot_be_run_stops_the_run(status: int) -> None:
    assert isinstance(failure("a", "/x/a", status, "", worked=False), ModelSetupError)
    assert isinstance(failure("a", "/x/a", status, "", worked=True), AgentError)


def test_only_the_end_of_a_long_message_is_told_on_one_line() -> None:
    raised = failure("a", "a", 1, "x\n" * 5000 + "the end", worked=True)
    assert str(raised).endswith("x x the end")
    assert len(str(raised)) < 600

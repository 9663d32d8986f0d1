from typing import Any

import pytest

from skillopt_ci.agents.cli_agents import agent_failure, waiting_for_server
from skillopt_ci.errors import InfrastructureError, ModelSetupError
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.rollout.types import AgentError

BUSY = [
    "API Error: 529 {'type':'overloaded_error'}",
    "You exceeded your current quota, please check your plan",
    "429 Too Many Requests",
    "stream disconnected before completion",
    "request to https://x failed, reason: connect ECONNREFUSED",
    "Claude AI usage limit reached|1750000000",
    "getaddrinfo EAI_AGAIN api.example.com",
    "We’re currently experiencing high demand, which may cause temporary errors.",
    "exceeded retry limit, last status: 429 Too Many Requests",
    "Failed to get response from the AI model; retried 5 times Last error: 500 boom",
]
NO_KEY = [
    "Invalid API key · Please run /login",
    "unexpected status 401 Unauthorized",
    "Please set an Auth method in your settings.json",
    "Error: No authentication information found.",
    "Invalid API key · Fix external API key (HTTP status 401)",
    "Failed to authenticate. API Error: 403 Your key may not use this model (HTTP status 403)",
    "Authentication failed with provider at http://x/v1 (HTTP 401). Check your key.",
    "Invalid auth method selected.",
]
WRONG_SETTING = [
    "There's an issue with the selected model (m). It may not exist or you may not have access.",
    "unexpected status 404 Not Found: model: m does not exist, url: http://x/v1/responses",
    "Model 'm' not found on provider at http://x/v1 (HTTP 404).",
    "error: unexpected argument '--x' found",
    "--dangerously-skip-permissions cannot be used with root/sudo privileges",
]
REFUSED = [
    "Prompt is too long · the request is ~300000 tokens (limit 200000)",
    "prompt is too long: 300000 tokens > 200000 maximum",
    "The provider rejected the prompt as too long, but automatic recovery could not reduce it.",
    "Your input exceeds the context window of this model.",
    "invalid_prompt: this may violate our usage policy",
]


@pytest.mark.parametrize("told", BUSY)
def test_a_server_in_trouble_is_no_failure_of_the_agent(told):
    raised = agent_failure("codex", "codex", 1, told, worked=True)
    assert isinstance(raised, ModelUnavailable)
    assert isinstance(raised, InfrastructureError)


@pytest.mark.parametrize("told", NO_KEY)
def test_a_missing_key_stops_the_run(told):
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=False), ModelSetupError)


@pytest.mark.parametrize("told", WRONG_SETTING)
def test_a_setting_that_cannot_work_stops_the_run(told):
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=False), ModelSetupError)


@pytest.mark.parametrize("told", REFUSED)
def test_a_prompt_that_the_server_refuses_is_the_tasks_outcome(told):
    raised = agent_failure("codex", "codex", 1, told, worked=False, silent=True)
    assert isinstance(raised, ModelRefusal)
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=True), AgentError)


def test_before_the_model_has_answered_nothing_is_the_agents_failure():
    raised = agent_failure("codex", "codex", 139, "core dumped", worked=False, silent=True)
    assert isinstance(raised, ModelUnavailable)


def test_only_the_last_wait_for_a_server_is_told():
    told = "Attempt 1 failed with status 429. Retrying\n  at x\nAttempt 2 failed. Retrying\n  at x"
    assert waiting_for_server(told) == "Attempt 2 failed. Retrying"
    assert waiting_for_server("all is well") == ""


@pytest.mark.parametrize("told", NO_KEY)
def test_but_not_once_the_agent_has_worked(told):
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=True), AgentError)


@pytest.mark.parametrize("status", [126, 127])
def test_a_program_that_cannot_be_run_stops_the_run(status):
    assert isinstance(agent_failure("a", "/x/a", status, "", worked=False), ModelSetupError)
    assert isinstance(agent_failure("a", "/x/a", status, "", worked=True), AgentError)


def test_only_the_end_of_a_long_message_is_told_on_one_line():
    raised = agent_failure("a", "a", 1, "x\n" * 5000 + "the end", worked=True)
    assert str(raised).endswith("x x the end")
    assert len(str(raised)) < 600


@pytest.mark.parametrize(
    ("told", "raised"),
    [
        ("stream disconnected before completion", ModelSetupError),
        ("its time was over", ModelSetupError),
        ("429 Too Many Requests", ModelUnavailable),
        ("connect ECONNREFUSED", ModelUnavailable),
    ],
)
def test_an_agent_without_a_key_that_never_answered_is_set_up_wrong(told, raised):
    how: Any = {"worked": False, "silent": True, "keys": ("A_KEY", "B_KEY")}
    failure = agent_failure("codex", "codex", 1, told, **how)
    assert type(failure) is raised
    assert ("none of A_KEY, B_KEY is set" in str(failure)) is (raised is ModelSetupError)

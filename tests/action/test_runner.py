from pathlib import Path

import pytest

from skillopt_ci.action.outputs import Runner
from skillopt_ci.errors import UsageError

VARIABLES = {
    "GITHUB_WORKSPACE": "/github/workspace",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_EVENT_PATH": "/github/workflow/event.json",
    "GITHUB_REPOSITORY": "octo/skills",
}


def test_what_github_com_leaves_out_is_known() -> None:
    runner = Runner.of(VARIABLES)
    assert runner.api_url == "https://api.github.com"
    assert runner.server_url == "https://github.com"
    assert (runner.output, runner.summary, runner.debug) == (None, None, False)


def test_an_enterprise_server_is_spoken_to() -> None:
    server = {"GITHUB_SERVER_URL": "https://git.corp", "GITHUB_API_URL": "https://git.corp/api/v3"}
    runner = Runner.of({**VARIABLES, **server, "GITHUB_STEP_SUMMARY": "/s", "RUNNER_DEBUG": "1"})
    assert (runner.server_url, runner.api_url) == ("https://git.corp", "https://git.corp/api/v3")
    assert (runner.summary, runner.debug) == (Path("/s"), True)


def test_elsewhere_than_on_a_runner_every_missing_variable_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        Runner.of({"GITHUB_WORKSPACE": "/w", "GITHUB_EVENT_NAME": ""})
    assert "GITHUB_EVENT_NAME, GITHUB_EVENT_PATH, GITHUB_REPOSITORY" in str(caught.value)

import time

import pytest
from github_server.scene import Scene

from skillopt_ci.github.client import AnswerLost, Unavailable

SHOW = "GET /pulls/{pull_number}"
CREATE = "POST /issues/{issue_number}/comments"
BODY = "<!-- m -->\nBody"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."


@pytest.fixture(autouse=True)
def pull(scene: Scene) -> int:
    return scene.pull()


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("operation", [SHOW, CREATE])
def test_it_waits_as_long_as_it_is_asked(scene: Scene, status: int, operation: str) -> None:
    scene.hub.fail(operation, status, SECONDARY, headers={"Retry-After": "7"})
    forge = scene.forge()
    forge.pull_request(1)
    forge.keep_comment(1, BODY)
    assert scene.waits == [7.0]
    assert scene.hub.own_comments() == [BODY]


@pytest.mark.parametrize("status", [403, 429])
def test_a_secondary_limit_without_a_time_means_a_minute(scene: Scene, status: int) -> None:
    scene.hub.fail(SHOW, status, SECONDARY)
    scene.forge().pull_request(1)
    assert scene.waits == [60.0]


def test_a_primary_limit_is_waited_for_until_its_reset(scene: Scene) -> None:
    reset = {"X-RateLimit-Reset": str(int(time.time()) + 50), "X-RateLimit-Remaining": "0"}
    scene.hub.fail(SHOW, 403, "API rate limit exceeded for installation", headers=reset)
    scene.forge().pull_request(1)
    assert 40 < sum(scene.waits) < 60


@pytest.mark.parametrize("header", ["Retry-After", "X-RateLimit-Reset"])
def test_a_paid_runner_does_not_sleep_for_an_hour(scene: Scene, header: str) -> None:
    until = 3600 if header == "Retry-After" else int(time.time()) + 3600
    scene.hub.fail(
        SHOW, 403, "API rate limit exceeded for installation", headers={header: str(until)}
    )
    with pytest.raises(Unavailable, match=r"rate limit asks to wait for 3\d\d\d s"):
        scene.forge().pull_request(1)
    assert scene.waits == []


def test_server_errors_are_retried_with_growing_pauses(scene: Scene) -> None:
    scene.hub.fail(SHOW, 502, times=4)
    scene.forge().pull_request(1)
    assert scene.waits == [2.0, 4.0, 8.0]


def test_a_server_that_stays_broken_is_given_up(scene: Scene) -> None:
    scene.hub.fail(SHOW, 500, times=99)
    with pytest.raises(AnswerLost, match="show pull request #1"):
        scene.forge().pull_request(1)


def test_refusals_are_not_retried(scene: Scene) -> None:
    scene.hub.fail(CREATE, 422, "Validation Failed")
    with pytest.raises(Exception, match="Validation Failed"):
        scene.forge().keep_comment(1, BODY)
    assert scene.hub.requests.count(CREATE) == 1

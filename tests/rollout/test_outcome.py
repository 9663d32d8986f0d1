import pytest

from skillopt_ci.rollout.types import Rollout, Status


def attempt(status: Status, hard: float) -> Rollout:
    return Rollout("t", status, hard, hard, "", "", messages=())


@pytest.mark.parametrize(
    ("status", "measured"),
    [
        (Status.SCORED, True),
        (Status.LIMIT, True),
        (Status.REFUSED, True),
        (Status.AGENT_ERROR, True),
        (Status.GRADER_ERROR, False),
        (Status.ERROR, False),
        (Status.CANCELLED, False),
    ],
)
def test_only_what_the_model_did_is_measured(status: Status, measured: bool) -> None:
    assert status.measured is measured


@pytest.mark.parametrize(("hard", "failed"), [(0.0, True), (1e-12, True), (0.5, False), (1, False)])
def test_a_measured_attempt_either_failed_or_succeeded(hard: float, failed: bool) -> None:
    one = attempt(Status.SCORED, hard)
    assert (one.failed, one.succeeded) == (failed, not failed)


@pytest.mark.parametrize("status", [Status.ERROR, Status.GRADER_ERROR])
def test_an_error_is_neither_failure_nor_success(status: Status) -> None:
    one = attempt(status, 0.0)
    assert not one.failed
    assert not one.succeeded

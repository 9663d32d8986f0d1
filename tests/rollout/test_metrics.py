import pytest
from rollout_values import make_rollout

from skillopt_ci.rollout.metrics import aggregate
from skillopt_ci.rollout.types import Status


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
def test_only_what_the_model_did_is_measured(status, measured):
    assert status.measured is measured


@pytest.mark.parametrize(("hard", "failed"), [(0.0, True), (1e-12, True), (0.5, False), (1, False)])
def test_a_measured_attempt_either_failed_or_succeeded(hard, failed):
    one = make_rollout(hard)
    assert (one.failed, one.succeeded) == (failed, not failed)


@pytest.mark.parametrize("status", [Status.ERROR, Status.GRADER_ERROR])
def test_an_error_is_neither_failure_nor_success(status):
    one = make_rollout(0.0, status)
    assert not one.failed
    assert not one.succeeded


def test_means_are_over_what_was_measured():
    rollouts = [
        make_rollout(1.0, soft=0.5),
        make_rollout(0.0, Status.REFUSED),
        make_rollout(0.0, Status.ERROR),
        make_rollout(0.0, Status.GRADER_ERROR),
    ]
    found = aggregate(rollouts)
    assert (found.hard, found.soft, found.n, found.errors) == (0.5, 0.25, 2, 2)


def test_nothing_measured_is_zero_on_no_tasks():
    found = aggregate([make_rollout(0.0, Status.ERROR)])
    assert (found.hard, found.soft, found.n, found.errors) == (0.0, 0.0, 0, 1)

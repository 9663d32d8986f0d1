import json
from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_values import attempt, make_rollout, summed

from skillopt_ci.rollout import metrics
from skillopt_ci.rollout.types import Limit, Rollout, Status


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
def test_only_what_the_model_did_is_measured_and_fails_or_succeeds(status, measured):
    worst, best = make_rollout(0.0, status), make_rollout(1.0, status)
    assert (status.measured, worst.failed, best.succeeded) == (measured, measured, measured)


@pytest.mark.parametrize(("hard", "failed"), [(0.0, True), (1e-12, True), (0.5, False), (1, False)])
def test_a_measured_attempt_either_failed_or_succeeded(hard, failed):
    one = make_rollout(hard)
    assert (one.failed, one.succeeded) == (failed, not failed)


def test_means_are_over_what_was_measured():
    rollouts = [
        make_rollout(1.0, soft=0.5),
        make_rollout(0.0, Status.REFUSED),
        make_rollout(0.0, Status.ERROR),
        make_rollout(0.0, Status.GRADER_ERROR),
    ]
    assert metrics.measured_means(rollouts) == (0.5, 0.25, 2)
    assert metrics.measured_means(rollouts[2:]) == (0.0, 0.0, 0)


# The whole summary: the conformance cases of agent evaluations, and what must hold always.


def broken(task: str, reason: str = "boom", status: Status = Status.ERROR) -> Rollout:
    return attempt(task, status=status, reason=reason)


ATTEMPTS = st.lists(
    st.builds(
        attempt,
        st.sampled_from(["a:b", "q/1", "q.2", "", "ü\n"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.just(Status.SCORED),
        kind=st.sampled_from(["", "x"]),
        limit=st.sampled_from([None, Limit.TIME]),
    )
    | st.builds(broken, st.sampled_from(["a:b", "q/1", "lost"]), st.sampled_from(["x", "y"])),
    max_size=25,
)


def test_nothing_at_all_is_a_summary_of_nothing():
    found = summed([])
    assert (found.tasks, found.attempts, found.measured) == (0, 0, 0)
    assert (found.hard.mean, found.hard.n, found.pessimistic_hard) == (None, 0, None)
    assert (found.missing, found.errors, found.by_type, found.limits) == ((), (), (), ())
    assert (found.lengths, found.model_ended, found.pass_at) == (None, None, {})


def test_solved_at_least_once_says_nothing_without_every_task():
    known = [attempt("q1", 1), attempt("q1")]
    assert summed([*known, attempt("q2"), attempt("q2")]).pass_at == {1: 0.25, 2: 0.5}
    assert summed([*known, broken("q2"), broken("q2")]).pass_at == {}


def test_a_lost_attempt_makes_it_incomplete_and_counts_for_nothing():
    found = summed([attempt("q1", 1), broken("q1"), attempt("q2"), attempt("q2")])
    assert (found.hard.mean, found.pessimistic_hard) == (0.5, 0.25)
    assert (found.solved, found.measured, found.attempts) == (1, 3, 4)
    assert found.errors == (metrics.ErrorCount(Status.ERROR, "boom", 1),)
    assert not found.complete
    assert found.missing == ()


def test_a_task_that_was_never_measured_is_named():
    ended = [attempt("q1", 1), attempt("q1", 1), attempt("q3")]
    lost = [broken("q2", "a"), broken("q2", "b"), broken("q3", "a")]
    found = summed([*ended, *lost])
    assert (found.hard.mean, found.pessimistic_hard) == (0.5, pytest.approx(1 / 3))
    assert [(row.reason, row.count) for row in found.errors] == [("a", 2), ("b", 1)]
    assert (found.missing, found.complete) == (("q2",), False)


def test_uneven_attempts_weigh_tasks_alike():
    found = summed([attempt("q1", 1), broken("q1"), broken("q2")])
    assert (found.hard.n, found.hard.mean, found.complete, found.tasks) == (1, 1.0, False, 2)
    assert (found.attempts, found.solved) == (3, 1)
    assert found.pessimistic_hard == 0.25


@pytest.mark.parametrize(("score", "solved"), [(1, 1), (1.0, 1), (0, 0), (0.5, 0)])
def test_only_the_full_score_is_solved_and_partial_credit_is_seen(score, solved):
    found = summed([attempt("q", score)])
    assert (found.solved, found.hard.mean) == (solved, score)


def test_attempts_that_never_came_are_missed():
    found = summed([attempt("q1", 1)], expected={"q1": 2, "q2": 2})
    assert (found.tasks, found.pessimistic_hard, found.complete) == (2, 0.25, False)
    assert found.missing == ("q2",)
    assert summed([attempt("q1", 1)], expected={"q1": 1}).complete


def test_limits_are_told_among_all_and_among_the_unsolved():
    found = summed(
        [
            attempt("a", 1, Status.LIMIT, limit=Limit.STEPS),
            attempt("b", 0, Status.LIMIT, limit=Limit.STEPS),
            attempt("c", 0, Status.LIMIT, limit=Limit.TIME),
            attempt("d", 0),
            broken("e"),
        ]
    )
    third = pytest.approx(1 / 3)
    time, steps = found.limits
    assert time == metrics.LimitShare(Limit.TIME, 0.25, third)
    assert steps == metrics.LimitShare(Limit.STEPS, 0.5, third)
    assert found.model_ended == pytest.approx(1 / 3)


def test_without_a_failure_there_is_no_share_of_failures():
    found = summed([attempt("a", 1, Status.LIMIT, limit=Limit.COST)])
    assert found.limits == (metrics.LimitShare(Limit.COST, 1.0, None),)
    assert found.model_ended is None
    found = summed([attempt(str(n), messages=n) for n in (0, 2, 4, 10)])
    assert found.lengths == (3.0, 4.0, 7.0)


def test_buckets_are_by_type_with_a_name_for_the_rest():
    attempts = [attempt("a", 1, kind="z"), attempt("b", kind="z", soft=0.5), attempt("c", 1)]
    found = summed([*attempts, broken("d")])
    told = [(one.task_type, one.hard.mean, one.soft.mean, one.hard.n) for one in found.by_type]
    assert told == [("other", 1.0, 1.0, 1), ("z", 0.5, 0.75, 2)]


def test_several_attempts_tell_how_often_a_task_is_solved_at_all():
    tries = [attempt("a", 1), attempt("a"), attempt("a"), attempt("b", 1), attempt("b", 1)]
    shares = {1: pytest.approx((1 / 3 + 1) / 2), 2: pytest.approx((2 / 3 + 1) / 2)}
    assert summed([*tries, broken("b")]).pass_at == shares
    whole = summed([*tries, attempt("b", 1)])
    assert (whole.pass_at[3], whole.pass_hat) == (1, {1: pytest.approx(2 / 3), 2: 0.5, 3: 0.5})
    assert summed([attempt("a", 1)]).pass_at == {}


def test_clusters_widen_the_interval():
    tasks = [attempt(f"{group}{n}", hard) for group, hard in (("a", 1), ("b", 0)) for n in range(4)]
    alone = summed(tasks)
    grouped = summed(tasks, clusters={one.task_id: one.task_id[0] for one in tasks})
    assert grouped.hard.clusters == 2
    assert (grouped.hard.standard_error or 0) > (alone.hard.standard_error or 0)


@given(ATTEMPTS)
def test_counts_add_up_and_no_number_is_not_one(attempts):
    found = summed(attempts)
    assert found.measured + sum(row.count for row in found.errors) == len(attempts)
    assert sum(bucket.hard.n for bucket in found.by_type) >= found.hard.n
    assert json.dumps(asdict(found), allow_nan=False)
    if found.hard.mean is not None:
        assert found.pessimistic_hard is not None
        assert found.pessimistic_hard <= found.hard.mean + 1e-12 or not found.complete


@given(ATTEMPTS, st.randoms())
def test_the_order_of_attempts_does_not_matter(attempts, random):
    one, other = summed(attempts), summed(sorted(attempts, key=lambda _: random.random()))
    assert (one.hard.mean, set(one.missing)) == (pytest.approx(other.hard.mean), set(other.missing))
    assert (one.errors, one.complete, one.limits) == (other.errors, other.complete, other.limits)


@given(ATTEMPTS)
def test_complete_means_that_both_numbers_agree(attempts):
    found = summed(attempts)
    if found.complete and attempts:
        assert len(set(Counter(one.task_id for one in attempts).values())) == 1
        assert found.hard.mean == pytest.approx(found.pessimistic_hard)

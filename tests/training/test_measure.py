from contextlib import nullcontext

import pytest

from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.rollout.types import Limit, Rollout, Status
from skillopt_ci.training.measure import Scores, next_rounds, rounds


def measurement(rollouts: list[Rollout], evaluation: Evaluation) -> Measurement:
    return Scores(rollouts=rollouts).measurement(evaluation)


def test_errors_are_named_and_not_averaged(make_rollout):
    rollouts = [
        make_rollout("right", 1.0),
        make_rollout("wrong", 0.0),
        make_rollout("broken", status=Status.ERROR),
        make_rollout("ungraded", status=Status.GRADER_ERROR),
    ]
    found = measurement(rollouts, Evaluation())
    assert (found.score, found.n, found.errors) == (0.5, 2, ("broken", "ungraded"))
    assert found.tasks == {"right": (1.0, 1.0), "wrong": (0.0, 0.0)}
    rollouts = [make_rollout("right", 1.0), make_rollout("refused", status=Status.REFUSED)]
    assert measurement(rollouts, Evaluation()).score == 0.5


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(("most", "limit"), [(0, 0.0), (1, 0.25), (2, 0.5), (3, 0.75), (3, 1.0)])
def test_more_errors_than_allowed_are_refused(make_rollout, most, limit, refused):
    errors = most + refused
    failed = [make_rollout("a", status=Status.ERROR, reason="no route")] * errors
    scores = Scores(rollouts=[*failed, *[make_rollout("a", 1.0)] * (4 - errors)])
    told = f"{errors} of 4 selection attempts.*no route"
    with pytest.raises(TooManyErrors, match=told) if refused else nullcontext():
        scores.refuse_errors(limit, "selection")


def test_no_attempts_are_no_errors_and_those_to_come_count_in_their_share(make_rollout):
    Scores().refuse_errors(0.0, "selection")
    scores = Scores(rollouts=[make_rollout("a", status=Status.ERROR)])
    scores.refuse_errors(0.25, "selection", expected=4)
    for limit, expected in ((1.0, None), (0.2, 4)):
        with pytest.raises(TooManyErrors, match="1 of 1"):
            scores.refuse_errors(limit, "selection", expected=expected)


@pytest.mark.parametrize(("metric", "score"), [("hard", 0.0), ("soft", 0.8), ("mixed", 0.2)])
def test_score_is_in_the_gates_metric(make_rollout, metric, score):
    evaluation = Evaluation(gate_metric=metric, gate_mixed_weight=0.25)
    found = measurement([make_rollout("half", 0.0, soft=0.8)], evaluation)
    assert found.score == pytest.approx(score)


def test_a_task_counts_by_the_mean_of_its_measured_attempts(make_rollout):
    rollouts = [
        make_rollout("a", 1.0),
        make_rollout("a", 0.0, attempt=1),
        make_rollout("b", 1.0),
        make_rollout("b", status=Status.ERROR, attempt=1),
        make_rollout("c", status=Status.ERROR, reason="down"),
        make_rollout("c", status=Status.GRADER_ERROR, attempt=1, reason="no report"),
    ]
    found = measurement(rollouts, Evaluation())
    assert found.tasks == {"a": (0.5, 0.5), "b": (1.0, 1.0)}
    assert (found.hard, found.errors, found.attempts_each) == (0.75, ("c",), 2)
    assert found.pessimistic_hard == pytest.approx((0.5 + 0.5 + 0.0) / 3)
    counts = {"error: down": 1, "error: wrong: b": 1, "grader_error: no report": 1}
    assert found.unmeasured == counts


def test_breaking_hard_tasks_gains_nothing_by_the_pessimistic_number(make_rollout):
    honest = measurement([make_rollout("a", 1.0), make_rollout("b", 0.0)], Evaluation())
    lost = make_rollout("b", status=Status.ERROR)
    broken = measurement([make_rollout("a", 1.0), lost], Evaluation())
    assert (honest.hard, honest.pessimistic_hard) == (0.5, None)
    assert (broken.hard, broken.pessimistic_hard) == (1.0, 0.5)
    cut = make_rollout("a", status=Status.LIMIT, limit=Limit.STEPS)
    assert measurement([cut, make_rollout("b")], Evaluation()).limits == {"steps": 1}


def test_a_record_without_errors_is_written_as_it_always_was(make_rollout):
    written = measurement([make_rollout("a", 1.0)], Evaluation()).model_dump(mode="json")
    assert list(written) == ["hard", "soft", "score", "density", "words", "tasks", "errors"]
    lost = make_rollout("b", status=Status.ERROR)
    found = measurement([make_rollout("a", 1.0), lost], Evaluation())
    assert Measurement.model_validate_json(found.model_dump_json()) == found


def test_tasks_without_all_their_attempts_have_no_score_yet(make_rollout):
    scores = Scores(rollouts=[make_rollout(task, 1.0) for task in "ab"])
    assert scores.means(2) == {}
    scores.add(make_rollout("a", soft=0.5))
    assert scores.means(2) == {"a": (0.5, 0.75)}
    scores = Scores(rollouts=[make_rollout("a", status=Status.ERROR)])
    assert (scores.made["a"], scores.means()) == (1, {})


def test_a_task_that_was_attempted_gets_the_next_number(make_task):
    made = [("a", 0), ("b", 0), ("a", 1)]
    numbered = next_rounds([make_task(name) for name in "abc"], made, 1)
    assert [(task.id, number) for task, number in numbered] == [("a", 2), ("b", 1), ("c", 0)]
    found = rounds([(make_task("a"), 1), (make_task("b"), 0)], "# S", "rollout", 2)
    assert [(one.task.id, one.attempt) for one in found] == [("a", 2), ("a", 3), ("b", 0), ("b", 1)]


def test_while_the_skill_stays_its_earlier_attempts_are_shown_again(checkout, model_server):
    model_server.plan = ("Of no use.", "Nor is this.", "Nor that.")
    assert checkout.done().decision.action == "reject"
    paid = model_server.answered.total()
    model_server.prompts.clear()
    checkout.step()
    shown = "".join(one for one in model_server.optimizer_prompts if "Trajectories (" in one)
    tasks = [task.id for step in (1, 2) for task in checkout.record(step).proposal.rollout.tasks]
    assert len(tasks) == 8
    assert all(f"Item {task[1:]} of kind" in shown for task in tasks)
    rolled_out = [one for one in model_server.prompts if "Stage:" not in one]
    assert model_server.answered.total() > paid
    again = [f"Item {task[1:]} of kind {task[0]}" for task in tasks[:4]]
    assert not any(prompt.endswith(item) for prompt in rolled_out for item in again)


def test_without_a_cache_no_earlier_attempt_is_made_again(checkout, model_server):
    model_server.plan = ()
    checkout.step("cache.enabled=false")
    checkout.step("cache.enabled=false")
    items = [one for one in model_server.prompts if "Item" in one]
    assert max(map(items.count, items)) == 1


@pytest.mark.parametrize(
    "more",
    [("0",), ("20", "rollout.attempts=4"), ("12", "train.accumulation=2", "train.batch_size=4")],
)
def test_evidence_is_counted_in_attempts(checkout, model_server, more):
    most, *settings = more
    model_server.plan = ()
    for _ in range(2):
        model_server.prompts.clear()
        checkout.step("gradient.minibatch_size=200", f"gradient.evidence={most}", *settings)
    assert "".join(model_server.optimizer_prompts).count("### Trajectory ") == (int(most) or 4)
    rolled_out = [one for one in model_server.prompts if "Stage:" not in one]
    assert len(rolled_out) == checkout.record(2).proposal.rollout.n  # no earlier one is made again


def test_the_next_epoch_attempts_the_same_tasks_afresh(checkout, model_server):
    model_server.plan = ()
    for _ in range(3):
        checkout.step()
    numbers = [one.attempt for n in (1, 2, 3) for one in checkout.record(n).proposal.rollout.tasks]
    assert numbers == [0] * 8 + [1] * 4

"""What changed between two steps is named: in a note, in the record and in the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.progress import Note

if TYPE_CHECKING:
    from skillopt_ci.progress import Event
    from tests.conftest import Checkout

BRANCH = "skillopt/demo"
PLAIN = ("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false")
ONE = (*PLAIN, "train.num_epochs=1")


def body(checkout: Checkout, commit: str = BRANCH) -> str:
    return " ".join(checkout.git("show", "-s", "--format=%B", commit).split())


def test_an_unchanged_run_names_nothing(checkout: Checkout) -> None:
    checkout.run(*PLAIN)
    assert [checkout.record(step).changes for step in (1, 2, 3, 4)] == [()] * 4


def test_a_changed_key_is_noted_recorded_and_committed(checkout: Checkout) -> None:
    checkout.run(*ONE)
    events: list[Event] = []
    checkout.run(*PLAIN, "optimizer.learning_rate=5", observer=events.append)
    told = ("optimizer.learning_rate (4 → 5)", "train.num_epochs (1 → 2)")
    assert checkout.record(3).changes == told
    assert checkout.record(4).changes == ()
    notes = [event.text for event in events if isinstance(event, Note)]
    assert f"Changed since the last step: {', '.join(told)}." in notes
    log = checkout.git("log", "--format=%B", BRANCH)
    assert "optimizer.learning_rate (4 → 5)" in " ".join(log.split())


def test_a_changed_task_file_is_named(checkout: Checkout) -> None:
    checkout.run(*ONE)
    lines = (checkout.folder / "tasks/train.jsonl").read_text(encoding="utf-8").splitlines()
    checkout.write("tasks/train.jsonl", "\n".join(lines[:6]))
    checkout.run(*PLAIN)
    assert "the training tasks (8 → 6)" in checkout.record(3).changes


def test_a_changed_reference_text_is_a_change_of_the_tasks(checkout: Checkout) -> None:
    checkout.run(*ONE)
    lines = (checkout.folder / "tasks/train.jsonl").read_text(encoding="utf-8")
    checkout.write("tasks/train.jsonl", lines.replace("}", ', "reference_text": "why"}', 1))
    checkout.run(*PLAIN)
    assert "the training tasks" in checkout.record(3).changes


def test_a_change_that_asks_for_a_new_measurement_is_named_there(checkout: Checkout) -> None:
    checkout.run(*ONE)
    checkout.run(*PLAIN, "evaluation.gate_metric=soft")
    measured = checkout.git("log", "--format=%H", "--grep=^Measure again", BRANCH)
    assert "evaluation.gate_metric (hard → soft)" in body(checkout, measured)


def test_a_change_under_a_candidate_is_named_by_the_step_after_it(checkout: Checkout) -> None:
    checkout.stop(*PLAIN)
    checkout.run(*PLAIN, "optimizer.learning_rate=5")
    assert checkout.record(1).changes == ()
    assert checkout.record(2).changes == ("optimizer.learning_rate (4 → 5)",)


def test_what_may_hold_a_secret_is_kept_as_a_hash(checkout: Checkout) -> None:
    checkout.run(*ONE, "model.target.extra_body={secret: sk-hidden}")
    basis = checkout.state().basis
    assert basis is not None
    assert basis.train_size == 8
    assert "sk-hidden" not in checkout.show(BRANCH, ".skillopt/demo/state.json")

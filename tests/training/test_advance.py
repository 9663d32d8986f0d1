"""What is done next: a step, or the end of an epoch, by whom the schedule says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.progress import Note
from skillopt_ci.training.plan import sizes_of
from skillopt_ci.training.trainer import Upcoming, upcoming

if TYPE_CHECKING:
    from skillopt_ci.progress import Event
    from tests.conftest import Checkout

BRANCH = "skillopt/demo"
CANDIDATE = "skillopt-candidate/demo"
RULE = "- Kind d: a number begins with d."
ENDS = ("optimizer.use_slow_update=true", "optimizer.use_meta_skill=true")
SCHEDULED = (*ENDS, "schedule.slow_update=scheduled")


def ends(checkout: Checkout) -> list[int]:
    return [entry.epoch for entry in checkout.history() if entry.kind == "slow_update"]


def test_run_ends_every_epoch(checkout):
    checkout.run(*ENDS)
    assert checkout.kinds() == ["start", *["step", "step", "slow_update"] * 2]
    assert ends(checkout) == [1, 2]
    assert checkout.state().boundary == 2


def test_scheduled_leaves_it_to_the_command(checkout):
    checkout.run("train.num_epochs=1", *SCHEDULED)
    assert ends(checkout) == []
    assert checkout.end_epoch(*SCHEDULED) is not None
    assert ends(checkout) == [1]


def test_command_does_nothing_when_no_end_is_due(checkout):
    checkout.step(*SCHEDULED)
    tip = checkout.ref(BRANCH)
    assert checkout.end_epoch(*SCHEDULED) is None
    assert checkout.ref(BRANCH) == tip


def test_epochs_that_nobody_ended_are_passed_over(checkout, model_server):
    model_server.guidance = RULE
    checkout.run(*SCHEDULED)
    checkout.end_epoch(*SCHEDULED)
    assert ends(checkout) == [2]
    record = checkout.boundary(2)
    assert record.previous_hard == 0.0  # that of the initial skill
    assert checkout.end_epoch(*SCHEDULED) is None


def test_next_comparison_is_with_the_last_end(checkout):
    checkout.run("train.num_epochs=1", *ENDS)
    ended = checkout.show(BRANCH, ".skillopt/demo/epochs/01.md")
    assert ended == checkout.show(BRANCH)
    checkout.run(*ENDS)
    assert checkout.boundary(2).previous_hard == 0.25


@pytest.mark.parametrize("schedule", ["inline", "scheduled"])
def test_end_in_flight_is_finished_by_whoever_comes_first(checkout, model_server, schedule):
    checkout.run()
    model_server.guidance = RULE
    checkout.stop(epoch_end=True)
    model_server.prompts.clear()
    checkout.step(*ENDS, f"schedule.slow_update={schedule}", "train.num_epochs=2")
    assert ends(checkout) == [2]
    assert checkout.ref(CANDIDATE) == ""
    assert model_server.optimizer_prompts == []


def test_step_in_flight_goes_before_the_end_of_an_epoch(checkout):
    events: list[Event] = []
    for _ in range(2):
        checkout.step(*SCHEDULED)
    checkout.stop(*SCHEDULED)
    assert checkout.end_epoch(*SCHEDULED, observer=events.append) is None
    waiting = [event for event in events if isinstance(event, Note) and "waits" in event.text]
    assert len(waiting) == 1
    checkout.step(*ENDS)
    assert checkout.kinds() == ["start", "step", "step", "step"]


def test_reviewers_commit_sets_the_end_in_flight_aside(checkout, model_server):
    checkout.run()
    model_server.guidance = RULE
    checkout.stop(epoch_end=True)
    candidate = checkout.ref(CANDIDATE)
    checkout.commit("skills/SKILL.md", "# Items, reviewed\n", branch=BRANCH)
    checkout.end_epoch()
    assert checkout.kinds()[-3:] == ["measure", "set_aside", "slow_update"]
    assert checkout.contains(candidate)
    assert checkout.show(BRANCH).startswith("# Items, reviewed\n")
    assert RULE in checkout.show(BRANCH)
    assert any("candidate of the end of epoch 2" in subject for subject in checkout.subjects())


def test_no_end_is_done_twice(checkout):
    checkout.run("train.num_epochs=1", *ENDS)
    checkout.commit("skills/SKILL.md", "# Items, reviewed\n", branch=BRANCH)
    assert checkout.end_epoch("train.num_epochs=1") is None


#: Events that a piece of work leaves in the history.
LEFT = {"step": ["step"], "epoch_end": ["slow_update", "step"], "done": []}


def foretold(checkout: Checkout, *overrides: str) -> Upcoming:
    session, history = checkout.session(*overrides), checkout.history()
    sizes = sizes_of(session.config, session.splits)
    return upcoming(session.config, sizes, checkout.state(), history)


def test_every_step_does_what_was_foretold(checkout):
    checkout.step(*ENDS)
    works = []
    while (coming := foretold(checkout, *ENDS)).work != "finish":
        before = len(checkout.kinds())
        checkout.step(*ENDS)
        left = [kind for kind in LEFT[coming.work] if kind != "step" or coming.step is not None]
        assert checkout.kinds()[before:] == left
        works.append(coming.work)
    assert works == ["step", "epoch_end", "step", "epoch_end"]
    tip = checkout.ref(BRANCH)
    assert checkout.step(*ENDS) is None
    assert checkout.ref(BRANCH) == tip


def test_a_schedule_of_its_own_is_told_beside_the_step(checkout):
    for _ in range(2):
        checkout.step(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED) == Upcoming("step", 4, 3, 1, scheduled=True)
    checkout.run(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED) == Upcoming("epoch_end", 4, None, 2, scheduled=True)
    checkout.end_epoch(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED).work == "finish"


def test_nothing_is_left_where_no_test_is_wanted(checkout):
    checkout.run()
    assert foretold(checkout).work == "finish"
    assert foretold(checkout, "evaluation.eval_test=false").work == "done"

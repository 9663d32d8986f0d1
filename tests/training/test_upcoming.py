"""What comes next, held against what the trainer then does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.training.trainer import Upcoming, upcoming

if TYPE_CHECKING:
    from tests.conftest import Checkout

ENDS = ("optimizer.use_slow_update=true", "optimizer.use_meta_skill=true")
SCHEDULED = (*ENDS, "schedule.slow_update=scheduled")
#: Events that a piece of work leaves in the history.
LEFT = {"step": ["step"], "epoch_end": ["slow_update", "step"], "done": []}


def foretold(checkout: Checkout, *overrides: str) -> Upcoming:
    session, history = checkout.session(*overrides), checkout.history()
    return upcoming(session.config, len(session.splits.train), checkout.state(), history[-1])


def test_every_step_does_what_was_foretold(checkout: Checkout) -> None:
    checkout.step(*ENDS)
    works = []
    while (coming := foretold(checkout, *ENDS)).work != "finish":
        before = len(checkout.kinds())
        checkout.step(*ENDS)
        left = [kind for kind in LEFT[coming.work] if kind != "step" or coming.step is not None]
        assert checkout.kinds()[before:] == left
        works.append(coming.work)
    assert works == ["step", "epoch_end", "step", "epoch_end"]
    assert checkout.step(*ENDS) is None


def test_a_schedule_of_its_own_is_told_beside_the_step(checkout: Checkout) -> None:
    for _ in range(2):
        checkout.step(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED) == Upcoming("step", 4, 3, 1, scheduled=True)
    checkout.run(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED) == Upcoming("epoch_end", 4, None, 2, scheduled=True)
    checkout.end_epoch(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED).work == "finish"


def test_nothing_is_left_where_no_test_is_wanted(checkout: Checkout) -> None:
    checkout.run()
    assert foretold(checkout).work == "finish"
    assert foretold(checkout, "evaluation.eval_test=false").work == "done"

"""Analysts begin while attempts are under way, and never see the order in which these end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from skillopt_ci.training.plan import Batch
from skillopt_ci.training.rollout_stage import dealt

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer, Workshop

EACH_ITS_ANALYST = "gradient.minibatch_size=1"


def test_the_first_minibatch_is_read_before_the_last_attempt_was_answered(
    checkout: Checkout, model_server: ModelServer
) -> None:
    """The server holds back one attempt until an analyst has asked."""
    analyst_asked, held = threading.Event(), list[bool]()
    last = dealt_last(checkout)

    def trouble(prompt: str) -> None:
        if "Stage: analyst" in prompt:
            analyst_asked.set()
        elif last in prompt and not held:
            held.append(analyst_asked.wait(30))

    model_server.trouble = trouble
    checkout.done(EACH_ITS_ANALYST)
    assert held == [True]


def test_the_record_does_not_tell_which_attempt_was_slow(workshop: Workshop) -> None:
    plain, slow = workshop.checkout("plain"), workshop.checkout("slow")
    plain.step(EACH_ITS_ANALYST)
    others, first = threading.Semaphore(0), plain.record(1).proposal.rollout.tasks[0].id

    def trouble(prompt: str) -> None:
        item = prompt.rsplit("\n\n", maxsplit=1)[-1]
        if item.startswith(f"Item {first[1:]} of"):
            for _ in range(3):
                others.acquire(timeout=30)
        elif item.startswith("Item "):
            others.release()

    workshop.server.trouble = trouble
    slow.step(EACH_ITS_ANALYST)
    assert slow.trees() == plain.trees()


def test_a_batch_is_dealt_by_its_seed() -> None:
    batch = Batch(7, tuple("abcdefgh"))  # type: ignore[arg-type]
    assert dealt(batch) == dealt(batch)
    assert dealt(batch) != list(batch.tasks) != dealt(Batch(8, batch.tasks))
    assert sorted(dealt(batch)) == list(batch.tasks)  # type: ignore[type-var]


def dealt_last(checkout: Checkout) -> str:
    """The prompt of the task that the first step's analysts read last."""
    from skillopt_ci.training.plan import plan_step

    session = checkout.session()
    plan = plan_step(session.splits.train, session.config.train, 1)
    return dealt(plan.batches[0])[-1].messages[-1].content

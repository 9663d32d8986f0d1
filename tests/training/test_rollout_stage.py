"""Several batches in one step: at once, in order, within the limits."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from skillopt_ci.progress import Event, Note, Observer, StageFinished, StageStarted
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.plan import Batch, plan_step, shuffled
from skillopt_ci.training.prefetcher import look_ahead
from skillopt_ci.training.replies import Patch, Reflection
from skillopt_ci.training.rollout_stage import WorkedBatch, attempts_so_far, batch_record, work_on
from skillopt_ci.training.state import find_checkout

PLAIN = ("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false")
BATCHES = [Batch(seed, ()) for seed in (1, 2, 3)]


def run(
    events: list[Event], roll_out: Callable[[int], object], batches: Sequence[Batch] = BATCHES
) -> list[tuple[int, Sequence[Rollout]]]:
    async def work(batch: Batch, observer: Observer) -> WorkedBatch:
        observer(StageStarted("rollout"))
        await roll_out(batch.seed)
        observer(StageFinished("reflect", str(batch.seed)))
        observer(Note("n"))
        return WorkedBatch(batch, (), ())

    return [one.batch.seed for one in asyncio.run(work_on(batches, work, events.append))]


def test_results_keep_the_order_whatever_comes_first(events):
    async def slow(seed: int) -> None:
        for _ in range(10 - 3 * seed):
            await asyncio.sleep(0)

    assert run(events, slow) == [1, 2, 3]
    finished = [event.summary for event in events if isinstance(event, StageFinished)]
    assert finished == ["3", "2", "1"]


def test_a_batch_is_reflected_on_while_others_are_rolled_out(events):
    async def first_waits_for_the_last(seed: int) -> None:
        while seed == 1 and not any(isinstance(event, StageFinished) for event in events):
            await asyncio.sleep(0)

    assert run(events, first_waits_for_the_last) == [1, 2, 3]


@pytest.mark.parametrize(
    ("count", "stages"), [(1, ["rollout"]), (2, ["rollout 1/2", "rollout 2/2"])]
)
def test_batches_are_told_apart_only_where_there_are_several(events, count, stages):
    run(events, lambda seed: asyncio.sleep(0), BATCHES[:count])
    assert [event.stage for event in events if isinstance(event, StageStarted)] == stages
    assert events.count(Note("n")) == count


def test_a_batch_remembers_its_patches(make_rollout):
    rollouts = [make_rollout("a", hard=1.0), make_rollout("b")]
    edit = Patch((Edit("append", "", "x"),))
    kinds = (("failure", edit), ("failure", Patch()), ("success", edit))
    reflections = [Reflection(kind, patch) for kind, patch in kinds]
    record = batch_record(WorkedBatch(Batch(9, ()), rollouts, reflections))
    assert (record.seed, record.hard, record.n) == (9, 0.5, 2)
    assert (record.n_failure_patches, record.n_success_patches) == (1, 1)


def test_a_step_joins_its_batches(checkout):
    overrides = (*PLAIN, "train.num_epochs=1", "train.batch_size=2", "train.accumulation=2")
    checkout.run(*overrides)
    proposal = checkout.record(1).proposal
    assert len(checkout.kinds()) == 3
    assert [batch.n for batch in proposal.batches] == [2, 2]
    assert [batch.seed for batch in proposal.batches] == [1043, 1044]
    assert proposal.rollout.n == 4


def test_a_task_drawn_twice_in_a_step_is_attempted_twice(checkout):
    checkout.step(*PLAIN, "train.batch_size=8", "train.accumulation=2")
    tasks = checkout.record(1).proposal.rollout.tasks
    assert {one.attempt for one in tasks} == {0, 1}
    assert len({(one.id, one.attempt) for one in tasks}) == len(tasks) == 16
    outlook = look_ahead(checkout.session(*PLAIN, "train.batch_size=8", "train.accumulation=2"))
    assert {one.attempt for one in outlook.attempts} <= {0, 1, 2, 3}
    assert len({(one.task.id, one.attempt) for one in outlook.attempts}) == 16


def test_progress_counts_tasks_as_the_record_does(checkout, events):
    checkout.step(*PLAIN, "rollout.attempts=3", observer=events.append)
    ends = [one for one in events if isinstance(one, StageFinished)]
    assert checkout.record(1).proposal.rollout.measured == 4
    assert events.count(StageStarted("selection", 3 * 8)) == 2  # of the first skill, the candidate
    assert [one.summary for one in ends if one.stage == "rollout"] == ["0.000 [0.00, 0.49] n=4"]


def test_one_task_that_can_never_be_measured_ends_no_run(checkout, model_server):
    """Where a text is proposed again, only the attempt that failed is made again."""
    model_server.trouble = lambda prompt: (500, "down") if "Item 107 of" in prompt else None
    checkout.run(*PLAIN)
    assert checkout.kinds().count("step") == 4


def test_attempts_are_known_however_many_steps_ago_they_were_made(checkout, model_server):
    model_server.plan = ()
    checkout.step(*PLAIN)
    session = checkout.session(*PLAIN)
    found = find_checkout(session.ledger, session.skill_path, session.ledger.sync())
    made = attempts_so_far(session, found)
    other = found.history[-1].model_copy(update={"step": 99, "skill_sha256": "another"})
    assert len(made) == 4
    assert attempts_so_far(session, replace(found, history=(*found.history, *[other] * 60))) == made


def test_concurrency_changes_nothing(workshop):
    overrides = (*PLAIN, "train.num_epochs=1", "train.batch_size=2", "train.accumulation=4")
    one, many = workshop.checkout("one"), workshop.checkout("many")
    one.run(*overrides, "model.target.max_concurrency=1", "gradient.analyst_workers=1")
    many.run(*overrides)
    assert one.trees() == many.trees()


# Analysts begin while attempts are under way, and never see the order in which these end.

EACH_ITS_ANALYST = "gradient.minibatch_size=1"


def test_the_first_minibatch_is_read_before_the_last_attempt_was_answered(checkout, model_server):
    """The server holds back one attempt until an analyst has asked."""
    analyst_asked, held = threading.Event(), list[bool]()
    session = checkout.session()
    batch = plan_step(session.splits.train, session.config.train, 1).batches[0]
    last = shuffled(batch.tasks, batch.seed)[-1].messages[-1].content

    def trouble(prompt: str) -> None:
        if "Stage: analyst" in prompt:
            analyst_asked.set()
        elif last in prompt and not held:
            held.append(analyst_asked.wait(60))

    model_server.trouble = trouble
    checkout.done(EACH_ITS_ANALYST)
    assert held == [True]


def test_the_record_does_not_tell_which_attempt_was_slow(workshop):
    plain, slow = workshop.checkout("plain"), workshop.checkout("slow")
    plain.step(EACH_ITS_ANALYST)
    others, first = threading.Semaphore(0), plain.record(1).proposal.rollout.tasks[0].id

    def trouble(prompt: str) -> None:
        item = prompt.rsplit("\n\n", maxsplit=1)[-1]
        if item.startswith(f"Item {first[1:]} of"):
            for _ in range(3):
                others.acquire(timeout=60)
        elif item.startswith("Item "):
            others.release()

    workshop.server.trouble = trouble
    slow.step(EACH_ITS_ANALYST)
    assert slow.trees() == plain.trees()

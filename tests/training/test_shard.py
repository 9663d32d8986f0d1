"""Attempts shared out over machines: the record is that of a single machine."""

import asyncio
from pathlib import Path

import pytest
from training_runs import estimated, train_once

from skillopt_ci.errors import BudgetExhausted, UsageError
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.training.prefetcher import (
    Outlook,
    Shard,
    ShardOutcome,
    look_ahead,
    roll_out_shard,
    shards,
    take_over,
)
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Candidate
from skillopt_ci.training.trainer import advance_to_candidate
from tests.conftest import EPOCH_ENDS, Checkout, Workshop

SKILL = "# Items\n\nThey are numbered.\n\nThey have kinds.\n"


class Fleet:
    """Machines that share a run: each has a cache of its own, and nothing else is in common."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self._machines = 0

    def session(self, *overrides: str) -> Run:
        self._machines += 1
        cache = self.checkout.folder.parent / f"{self.checkout.folder.name}-{self._machines}.sqlite"
        return self.checkout.session(f"cache.path={cache}", *overrides)

    def roll_out(self, most: int, *overrides: str, lost: int = 0) -> list[Path]:
        """Roll out all shards but the first ``lost``; return the files with their answers."""
        outlook = look_ahead(self.session(*overrides))
        parts = () if outlook is None else shards(outlook, most)
        return [self._shard(part, overrides) for part in parts[lost:]]

    def _shard(self, part: Shard, overrides: tuple[str, ...]) -> Path:
        session = self.session(*overrides)
        file = self.checkout.folder.parent / f"answers-{self._machines}.jsonl"
        share(session, part, file)
        return file

    def step(self, files: list[Path], *overrides: str) -> Checkout:
        """Do a step on one more machine, as the command does."""
        session = self.session(*overrides)
        take_over(session, files)
        asyncio.run(train_once(session, lambda outcome: None))
        return self.checkout


def share(session: Run, part: Shard, file: Path) -> ShardOutcome:
    return asyncio.run(roll_out_shard(session, look_ahead(session), part, file))


def roll_out(checkout: Checkout, part: Shard, *overrides: str) -> ShardOutcome:
    return share(checkout.session(*overrides), part, checkout.folder / "answers.jsonl")


@pytest.fixture
def fleet(workshop: Workshop) -> Fleet:
    return Fleet(workshop.checkout("fleet", SKILL))


@pytest.fixture
def alone(workshop: Workshop) -> Fleet:
    return Fleet(workshop.checkout("alone", SKILL))


def phases(fleet: Fleet, steps: int, *overrides: str, most: int = 3, lost: int = 0) -> list[str]:
    """Do steps with as many machines and return what their shards were for."""
    seen = []
    for _ in range(steps):
        outlook = look_ahead(fleet.session(*overrides))
        seen.append("" if outlook is None else outlook.phase)
        fleet.step(fleet.roll_out(most, *overrides, lost=lost), *overrides)
    return seen


@pytest.mark.parametrize("most", [2, 5])
def test_shards_record_what_a_single_machine_records(fleet, alone, most):
    for _ in range(2):
        shared, single = fleet.step(fleet.roll_out(most)), alone.step([])
    assert (shared.trees(), shared.state().usage) == (single.trees(), single.state().usage)


def test_what_a_lost_shard_lacks_is_asked_by_the_step(fleet, alone):
    assert phases(fleet, 2, most=4, lost=2) == ["measure", "rollout"]
    phases(alone, 2, most=1, lost=1)
    assert fleet.checkout.trees() == alone.checkout.trees()


def test_step_asks_nothing_again_that_a_shard_was_answered(fleet, model_server):
    fleet.step([])
    files = fleet.roll_out(2)
    model_server.prompts.clear()
    fleet.step(files)
    asked = [prompt for prompt in model_server.prompts if "Stage:" not in prompt]
    assert all("Item 10" in prompt for prompt in asked)  # those of the selection


def test_a_step_in_two_halves_records_what_a_whole_one_records(fleet, alone, model_server):
    for _ in range(2):
        session = fleet.session()
        take_over(session, fleet.roll_out(2))
        assert isinstance(asyncio.run(advance_to_candidate(session)), Candidate)
        files = fleet.roll_out(2)
        model_server.prompts.clear()
        fleet.step(files)
        assert model_server.prompts == []
        alone.step([])
        assert fleet.checkout.trees() == alone.checkout.trees()


def test_half_a_step_goes_on_with_the_candidate_in_flight(fleet):
    first, second = (asyncio.run(advance_to_candidate(fleet.session())) for _ in range(2))
    assert isinstance(first, Candidate)
    assert isinstance(second, Candidate)
    assert first.commit == second.commit


def test_half_a_step_without_a_candidate_is_a_whole_one(fleet, model_server):
    model_server.plan = ()
    assert asyncio.run(advance_to_candidate(fleet.session())).is_step


def test_end_of_an_epoch_is_done_before_half_a_step(fleet):
    fleet.checkout.run("train.num_epochs=1")
    session = fleet.session("train.num_epochs=1")  # without ends
    assert asyncio.run(advance_to_candidate(session)) is None
    ahead = look_ahead(session)
    assert ahead is not None
    assert (ahead.phase, ahead.attempts) == ("test", ())
    session = fleet.session(*EPOCH_ENDS)
    assert asyncio.run(advance_to_candidate(session)).is_step is False
    assert isinstance(asyncio.run(advance_to_candidate(session)), Candidate)


def test_skills_of_two_epochs_are_compared_by_shards(fleet, alone):
    for machines in (fleet, alone):
        machines.checkout.run("train.batch_size=8")
    overrides = (*EPOCH_ENDS, "train.batch_size=8")
    assert phases(fleet, 1, *overrides) == ["comparison"]
    assert fleet.checkout.trees() == alone.step([], *overrides).trees()
    assert fleet.checkout.boundary(2).pairs


def test_best_skill_is_measured_again_too_when_the_tasks_change(fleet):
    machine = fleet.step([])
    machine.run("evaluation.use_gate=false")  # which takes a worse skill, too
    assert machine.state().best.sha256 != machine.state().current.sha256
    outlook = look_ahead(session := machine.session("evaluation.gate_metric=soft"))
    assert (outlook.phase, len(outlook.attempts)) == ("measure", 8 * 2)
    assert estimated(session, "step")["selection"].high == 8 * 2


def test_base_is_taken_in_by_the_step_alone(fleet, alone):
    for machines in (fleet, alone):
        machines.step([]).commit("skills/SKILL.md", SKILL.replace("Items", "Things"))
    tip, files = fleet.checkout.ref("skillopt/demo"), fleet.roll_out(2)
    assert fleet.checkout.ref("skillopt/demo") == tip
    assert len(files) == 2
    assert fleet.step(files).state().usage == alone.step([]).state().usage


def test_answers_are_accounted_for_in_the_step_that_uses_them_first(checkout):
    roll_out(checkout, Shard(1, 1))
    checkout.step()
    start, step = checkout.history()
    assert start.usage.calls == 8
    assert step.usage.calls == checkout.record(1).usage.calls > 0


@pytest.mark.parametrize("scope", ["step", "run"])
def test_shards_keep_to_their_share_of_the_budget(checkout, scope):
    with pytest.raises(BudgetExhausted):
        roll_out(checkout, Shard(1, 2), f"budget.{scope}.calls=4")
    lines = (checkout.folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 2


def test_shards_of_an_evaluation_know_what_the_proposal_cost(checkout, model_server):
    asyncio.run(advance_to_candidate(checkout.session()))
    made = model_server.answered.total()
    with pytest.raises(BudgetExhausted):
        roll_out(checkout, Shard(1, 1), f"budget.run.calls={made + 3}")
    assert model_server.answered.total() == made + 3


def test_nothing_is_compared_twice_where_an_epoch_merged_nothing(checkout, model_server):
    model_server.plan = ()
    more = (*EPOCH_ENDS, "train.num_epochs=2")
    while (outlook := look_ahead(checkout.session(*more))) and outlook.phase != "comparison":
        checkout.step(*more)
    assert len(set(map(repr, outlook.attempts))) == len(outlook.attempts) == 8


def test_attempts_that_fail_are_left_to_the_step(checkout, model_server):
    model_server.trouble = lambda prompt: (503, "busy") if "kind a" in prompt else None
    outcome = roll_out(checkout, Shard(1, 1))
    assert (outcome.attempts, outcome.errors, outcome.answers) == (8, 2, 6)
    model_server.trouble = lambda prompt: None
    take_over(checkout.session(), [checkout.folder / "answers.jsonl"])
    checkout.step()
    assert checkout.history()[0].tasks == 8


def test_without_a_cache_nothing_can_be_shared_or_is_paid_for(checkout, model_server):
    with pytest.raises(UsageError, match="cache"):
        take_over(checkout.session("cache.enabled=false"), [])
    with pytest.raises(UsageError, match="cache"):
        roll_out(checkout, Shard(1, 1), "cache.enabled=false")
    assert model_server.prompts == []


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "-1/2", "١/٢"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(UsageError, match="2/4"):
        Shard.parse(text)


@pytest.mark.parametrize(("attempts", "of"), [(0, 1), (3, 3), (9, 4)])
def test_no_shard_is_idle_if_it_need_not_be(attempts, of):
    attempt = AttemptRequest(task=None, skill="", stage="rollout")
    parts = shards(Outlook("rollout", 1, (attempt,) * attempts, Usage()), 4)
    assert [str(part) for part in parts] == [f"{number}/{of}" for number in range(1, of + 1)]

"""Agents on computers are trained like chat answers, and what they did is never done twice."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import shell_agent
from command_line import overrides, skillopt_ci
from training_runs import train_once

from skillopt_ci.progress import Event, Note
from skillopt_ci.training.prefetcher import Shard, look_ahead, roll_out_shard, take_over
from tests.conftest import Checkout, Workshop

ALONE, FEW = "model.target.max_concurrency=1", "evaluation.sel_env_num=4"
#: The agent has a model of its own: nobody asks this one, which has no key.
UNASKED = "model.target={provider: gemini, model: m}"


@pytest.fixture
def with_agents(workshop: Workshop) -> Callable[[str], Checkout]:
    """Make repositories of the items' world whose target is a program on a computer."""
    return partial(shell_agent.checkout_with, workshop)


def test_a_skill_is_trained_on_what_agents_leave_behind_and_measured_once(with_agents, workshop):
    checkout = with_agents("one")
    notes: list[Event] = []
    checkout.step(UNASKED, observer=notes.append)
    record = checkout.record(1)
    assert (record.decision.score_before, record.decision.score_after) == (0.0, 0.25)
    assert "Kind a: a number begins with a." in checkout.show("skillopt/demo")
    assert "not confined" in record.decision.measurement.caveat
    assert any(isinstance(one, Note) and "not confined" in one.text for one in notes)
    assert "not confined" in checkout.git("log", "-1", "--format=%B", "skillopt/demo")
    assert record.usage.calls >= 12  # 4 training tasks and 8 of the selection, at least
    assert record.usage.estimated
    prompts = [prompt for prompt in workshop.server.optimizer_prompts if "### Trajectory" in prompt]
    assert prompts
    assert all("wrote answer.txt" in prompt for prompt in prompts)
    files = list(Path(checkout.folder, ".git/skillopt-ci/events/demo").glob("*.jsonl"))
    text = "".join(file.read_text("utf-8") for file in files)
    events = [json.loads(line) for line in text.splitlines()]
    assert {event["type"] for event in events} >= {"attempt_started", "work_ended", "attempt_ended"}
    assert all(event["task"] and event["stage"] for event in events)
    assert "sk-demo-key" not in text
    # the same skill is not measured again
    before = len(shell_agent.made(checkout.folder))
    checkout.git("update-ref", "-d", "refs/heads/skillopt/demo")
    checkout.step(UNASKED)
    assert len(shell_agent.made(checkout.folder)) == before
    task = next(iter(record.decision.measurement.tasks))
    shown = skillopt_ci(checkout.folder, "trace", task, *overrides(UNASKED)).stdout
    assert "\nuser\n" in shown[: shown.index("taken from the store")]
    # unless what the tasks have in common has changed
    checkout.git("update-ref", "-d", "refs/heads/skillopt/demo")
    checkout.step(UNASKED, "rollout.task={environ: {CITY: Oslo}}")
    assert len(shell_agent.made(checkout.folder)) == 2 * before


def test_a_killed_process_loses_no_attempt_that_was_made(with_agents):
    """Killed in the baseline, in the batch and in the evaluation."""
    whole, checkout = with_agents("whole"), with_agents("killed")
    whole.step(ALONE, FEW)
    for done in (2, 6, 10):
        (checkout.folder.parent / "kill").write_text(str(done), encoding="utf-8")
        ended = skillopt_ci(checkout.folder, "step", "-q", *overrides(ALONE, FEW))
        assert ended.returncode == -signal.SIGKILL
        assert len(shell_agent.made(checkout.folder)) == done
    checkout.step(ALONE, FEW)
    assert Counter(shell_agent.made(checkout.folder)) == Counter(shell_agent.made(whole.folder))
    assert (checkout.record(1), checkout.state().usage) == (whole.record(1), whole.state().usage)


def test_shards_hand_their_attempts_over(with_agents):
    checkout, alone = with_agents("fleet"), with_agents("alone")
    files = []
    for number in (1, 2):
        session = checkout.session(f"cache.path=../machine-{number}.sqlite")
        files.append(checkout.folder.parent / f"answers-{number}.jsonl")
        part = roll_out_shard(session, look_ahead(session), Shard(number, 2), files[-1])
        outcome = asyncio.run(part)
        assert (outcome.attempts, outcome.errors) == (4, 0)
        # an attempt and its grade each
        assert outcome.answers == 8
    by_shards = Counter(shell_agent.made(checkout.folder))
    session = checkout.session("cache.path=../last.sqlite")
    take_over(session, files)
    asyncio.run(train_once(session, lambda outcome: None))
    alone.step()
    made = Counter(shell_agent.made(checkout.folder))
    assert by_shards <= made
    assert made == Counter(shell_agent.made(alone.folder))
    assert (checkout.record(1), checkout.state().usage) == (alone.record(1), alone.state().usage)


def test_another_solver_or_computer_is_measured_anew(with_agents):
    checkout = with_agents("one")
    plain = checkout.session().measured_under
    assert checkout.session("rollout.attempts=2").measured_under != plain
    assert checkout.session("rollout.limits.steps=7").measured_under != plain
    assert checkout.session("rollout.retries=7").measured_under == plain
    assert checkout.session("rollout.events=false").measured_under == plain


def test_several_attempts_make_a_mean(with_agents):
    checkout = with_agents("one")
    checkout.step("rollout.attempts=2", "tasks.limit=4")
    assert set(Counter(shell_agent.made(checkout.folder)).values()) <= {2, 4}
    measurement = checkout.state().current.measurement
    assert (measurement.attempts_each, measurement.n) == (2, 4)
    assert checkout.record(1).proposal.rollout.n == 8

"""Whole runs on tasks that are generated, and with a program as the target."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import ConfigError

if TYPE_CHECKING:
    from tests.conftest import Checkout

PLAIN = ("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false")
GENERATOR = """
FIRST = {"train": 0, "selection": 9000, "test": 9500}

def make(split, seed, count):
    numbers = [FIRST[split] + seed * 10 + n for n in range(count)]
    return [
        {"prompt": f"Item {n} of kind {'abcd'[n % 4]}", "references": f"{'abcd'[n % 4]}{n}"}
        for n in numbers
    ]
"""
TASKS = "tasks={generator: 'gen.py:make', selection: 8, test: 8}"
SIZE = ("train.train_size=8", "train.batch_size=4", "train.num_epochs=2")
AGENT = """
import re, sys
prompt = sys.stdin.read()
number, kind = re.search(r"Item (\\d+) of kind (\\w)", prompt).groups()
known = f"Kind {kind}: a number begins with {kind}." in prompt
print(f"considered kind {kind}", file=sys.stderr)
print(f"<answer>{kind if known else ''}{number}</answer>")
"""


@pytest.fixture
def generated(checkout: Checkout) -> Checkout:
    checkout.write("gen.py", GENERATOR)
    config = checkout.show("main", "skillopt.yaml").splitlines()
    kept = [line for line in config if not line.startswith("tasks:")]
    checkout.write("skillopt.yaml", "\n".join([*kept, TASKS.replace("tasks=", "tasks: ")]))
    return checkout


def test_a_seed_is_a_batch_of_a_run_on_generated_tasks(generated):
    generated.run(*PLAIN, *SIZE)
    steps = [generated.record(step).proposal for step in (1, 2, 3, 4)]
    seeds = [proposal.batches[0].seed for proposal in steps]
    assert sorted(seeds[:2]) == sorted(seeds[2:]) == [43, 44]
    for proposal in steps:
        seed = proposal.batches[0].seed
        assert [task.id for task in proposal.rollout.tasks] == [
            f"train-{seed}-{number}" for number in (1, 2, 3, 4)
        ]
    assert generated.kinds() == ["start", *["step"] * 4]
    assert generated.state().best.measurement.score > 0


def test_a_run_on_generated_tasks_goes_on_in_another_process(generated):
    generated.run(*PLAIN, *SIZE, "train.num_epochs=1")
    generated.run(*PLAIN, *SIZE)
    assert generated.kinds() == ["start", *["step"] * 4]


@pytest.mark.parametrize("size", [0, 6])
def test_generated_tasks_need_a_number_of_whole_steps(generated, size):
    with pytest.raises(ConfigError, match=r"multiple of train\.batch_size .*\(4\)"):
        generated.session(*PLAIN, f"train.train_size={size}", "train.batch_size=4")


def test_a_program_can_be_the_target(checkout, model_server):
    checkout.write("agent.py", AGENT)
    config = checkout.show("main", "skillopt.yaml").splitlines()
    command = json.dumps([sys.executable, "{root}/agent.py"])
    target = f"  target: {{provider: command, model: agent, command: {command}}}"
    lines = [target if line.startswith("  target:") else line for line in config]
    checkout.write("skillopt.yaml", "\n".join(lines))
    checkout.run(*PLAIN, "train.num_epochs=1")
    assert checkout.state().best.measurement.score == 0.25
    assert checkout.state().usage.estimated
    assert not any(prompt.endswith("of kind a") for prompt in model_server.prompts)

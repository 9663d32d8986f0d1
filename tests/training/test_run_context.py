import asyncio
import json
import os
import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from programs import write_program

from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.errors import InfrastructureError
from skillopt_ci.tasks.task import ComputerTask
from skillopt_ci.training.fingerprint import measurement_fingerprint
from skillopt_ci.training.run_context import equipped

AGENT = """
import re, sys
prompt = sys.stdin.read()
number, kind = re.search(r"Item (\\d+) of kind (\\w)", prompt).groups()
known = f"Kind {kind}: a number begins with {kind}." in prompt
print(f"considered kind {kind}", file=sys.stderr)
print(f"<answer>{kind if known else ''}{number}</answer>")
"""


def test_a_program_can_be_the_target(checkout, model_server):
    checkout.write("agent.py", AGENT)
    config = checkout.show("main", "skillopt.yaml").splitlines()
    command = json.dumps([sys.executable, "{root}/agent.py"])
    target = f"  target: {{provider: command, model: agent, command: {command}}}"
    lines = [target if line.startswith("  target:") else line for line in config]
    checkout.write("skillopt.yaml", "\n".join(lines))
    checkout.run("train.num_epochs=1")
    assert checkout.state().best.measurement.score == 0.25
    assert checkout.state().usage.estimated
    assert not any(prompt.endswith("of kind a") for prompt in model_server.prompts)


# What a run's pieces of work share, seen from a real server.

ONE_AT_A_TIME = ("model.target.max_concurrency=1", "gradient.analyst_workers=1")


def test_all_steps_of_a_run_share_one_pool_of_connections(checkout, model_server):
    assert len(checkout.run(*ONE_AT_A_TIME)) == 4
    # one for attempts, and one for an analyst meanwhile
    assert len(model_server.peers) <= 2


def test_pieces_of_work_share_one_store_of_attempts_which_closes_with_it(checkout):
    session = checkout.session()

    async def work() -> None:
        async with equipped(session) as (ready, equipment):
            stores = set()
            for scope in ("one", "other"):
                async with ready.models(scope):
                    stores.add(equipment.store)
            (store,) = stores
            assert store.get("unknown") is None
        with pytest.raises(InfrastructureError):
            store.get("unknown")

    asyncio.run(work())


def test_batches_share_the_places_of_analysts(checkout, model_server):
    """Two batches with two minibatches or more, and a single place."""
    under_way, most, lock = 0, 0, threading.Lock()
    answer = model_server.answer

    def counted(system: str, prompt: str) -> str:
        nonlocal under_way, most
        asks = "Stage: analyst" in system or "analyst_" in system
        with lock:
            under_way += asks
            most = max(most, under_way)
        try:
            return answer(system, prompt)
        finally:
            with lock:
                under_way -= asks

    model_server.answer = counted
    assert checkout.step("train.accumulation=2", "gradient.minibatch_size=1", ONE_AT_A_TIME[1])
    assert most == 1


# A step is not dominated by git: how many processes it begins is bounded.

#: Steps of the run that is counted.
STEPS = 4


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """Put a git before git that notes down its commands; returns what counts them."""
    real, notes = shutil.which("git"), tmp_path / "begun"
    script = f'printf "%s\\n" "$*" >> {notes}\nexec {real} "$@"'
    wrapper = write_program(tmp_path / "bin" / "git", script)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)
    # the first word of a line that is no option of git itself
    return lambda: Counter(re.findall(r"^(?:-[cC] \S+ )*(\S+)", notes.read_text(), re.MULTILINE))


def test_local_run_begins_few_processes(checkout, begun):
    outcomes, count = checkout.run(), begun()
    assert len(outcomes) == STEPS
    assert count.total() <= 21 + 11 * STEPS, count
    assert [count[name] for name in ("cat-file", "hash-object", "mktree")] == [1, 1, 1]


def test_run_with_a_remote_begins_few_processes(workshop, begun):
    clone, before = workshop.clone(workshop.origin(), "clone"), begun()
    outcomes, count = clone.run(), begun() - before
    assert len(outcomes) == STEPS
    assert count.total() <= 20 + 21 * STEPS, count


def test_reading_takes_as_many_processes_whatever_the_length(checkout, begun):
    session = checkout.session()
    session.ledger.read("main", "skills/SKILL.md")
    before = begun()
    for _ in range(50):
        assert session.ledger.read("main", "skills/SKILL.md") == "# Items\n"
    assert begun() == before


WAYS = [
    "model.target.model=other",
    "model.target.temperature=0",
    "model.target.max_output_tokens=100",
    "model.target.reasoning_effort=low",
    "model.target.extra_body={top_p: 0.5}",
    "model.target.api=responses",
    "scorer.answer=last_line",
    "evaluation.gate_metric=mixed",
    "evaluation.gate_mixed_weight=0.25",
    "evaluation.sel_env_num=4",
    "prompts=prompts",
]
REST = [
    "model.target.timeout=5",
    "model.target.retries=1",
    "model.target.max_concurrency=1",
    "model.target.price={input: 1, output: 2}",
    "model.target.structured_output=off",
    "model.target.token_limit_field=max_tokens",
    "model.optimizer.model=other",
    "optimizer.learning_rate=9",
    "train.batch_size=1",
    "budget.run.calls=1",
    "tasks.test=null",
]


def test_way_of_measuring_is_part_of_it_and_the_rest_is_not(checkout):
    checkout.write("prompts/target.md", "Read this first.\n\n{skill}\n")
    plain = checkout.session().measured_under
    changed = [one for one in WAYS + REST if checkout.session(one).measured_under != plain]
    assert changed == WAYS


def test_judge_counts_where_there_is_a_rubric(checkout):
    graded = "scorer={type: rubric, rubric: 'Is the number right?'}"
    one, two = checkout.session(graded), checkout.session(graded, "model.optimizer.temperature=1")
    assert one.measured_under != two.measured_under


def test_common_limits_beside_those_of_a_task_once_did_not_count(checkout):
    computer = "rollout.computer={type: unconfined}"
    session = checkout.session(computer, "rollout.task={limits: {steps: 2}}")
    configs = (session.config, checkout.session(computer).config)
    for own, count in (({}, 1), ({"limits": {"tokens": 5}}, 2)):
        task = ComputerTask(ComputerBlock.model_validate(own))
        facts = ([replace(session.selection[0], computer=task)], session.prompts, {}, session.root)
        assert len({measurement_fingerprint(config, *facts) for config in configs}) == count


def test_the_files_of_a_graders_folder_count(checkout):
    checkout.write("grader/check.sh", "grep -q done out")
    settings = (
        "scorer={type: all, of: [{type: computer, command: sh check.sh, folder: grader}]}",
        "rollout.computer={type: unconfined}",
    )

    def under() -> tuple[str, str]:
        session = checkout.session(*settings)
        return session.measured_under, session.tested_under

    before = under()
    assert under() == before
    checkout.write("grader/__pycache__/helper.pyc", "compiled")
    assert under() == before
    checkout.write("grader/check.sh", "grep -qx done out")
    changed = under()
    assert all(one != other for one, other in zip(changed, before, strict=True))
    (checkout.folder / "grader/check.sh").rename(checkout.folder / "grader/other.sh")
    assert under()[0] not in (before[0], changed[0])

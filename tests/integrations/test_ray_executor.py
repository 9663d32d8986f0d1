"""A Ray cluster makes the attempts; what is recorded is what one machine would have recorded."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
import shell_agent
from command_line import skillopt_ci

from skillopt_ci import confinement
from skillopt_ci.cli.main import main
from skillopt_ci.config.config import Limits
from skillopt_ci.config.loading import load
from skillopt_ci.config.rollout import RayExecutor
from skillopt_ci.errors import BudgetExhausted, ExitCode, UsageError
from skillopt_ci.integrations.ray_executor import Handover, Parcel, Worker, join
from skillopt_ci.progress import Event, Note
from skillopt_ci.redaction import HIDDEN
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.training.run_context import Run
from tests.conftest import Checkout, Workshop

RAY = "rollout.executor={type: ray, cpus: 0.5}"
#: Each worker takes seconds to start, and has one agent at a time.
FEW = (RAY, "model.target.max_concurrency=2")
WORKERS_KEY = "sk-workers-key"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.cluster,
    pytest.mark.skipif(
        find_spec("ray") is None and ("CI" not in os.environ or sys.version_info >= (3, 15)),
        reason="ray is not installed",
    ),
    # Ray's own: it is told of sockets that it leaves to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

#: What makes the agent's program kill the worker whose child it is.
KILL_WORKER = """\
worker() {
    p=$$
    while [ "$p" -gt 1 ]; do
        if grep -q '^ray::' "/proc/$p/cmdline"; then echo "$p"; return; fi
        p=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status")
    done
}
MORTAL=$(worker)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of this machine, whose workers have a key of their own."""
    import ray

    # pytest's folders are too deep for Ray: a socket's path has 107 bytes, of which it needs 66
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("DEMO_KEY", raising=False)
            patch.setattr(confinement, "_withheld", {"DEMO_KEY": WORKERS_KEY})
            patch.setenv("TMPDIR", folder)
            join(RayExecutor(type="ray", address="local"))
            assert ray.is_initialized()
            assert "DEMO_KEY" not in os.environ
        yield
        ray.shutdown()


@pytest.fixture
def pair(workshop: Workshop) -> tuple[Checkout, Checkout]:
    return workshop.checkout("shared"), workshop.checkout("alone")


@pytest.fixture
def with_agents(workshop: Workshop) -> Callable[[str, str], Checkout]:
    """Make repositories whose target is a program on a computer; ``more`` is done in it first."""
    return partial(shell_agent.checkout_with, workshop)


@pytest.mark.usefixtures("cluster")
def test_chat_answers_of_workers_make_the_same_step(pair, model_server):
    shared, alone = pair
    shared.step(RAY)
    assert f"Bearer {WORKERS_KEY}" in model_server.keys
    answered = model_server.answered.copy()
    alone.step()
    assert shared.trees() == alone.trees()
    assert shared.record(1) == alone.record(1)
    # nothing was asked twice, by workers or here: the other machine asked the same once more
    assert model_server.answered == answered + answered


@pytest.mark.usefixtures("cluster")
def test_nothing_that_a_worker_did_is_paid_for_by_this_process(workshop, model_server):
    assert _measured(workshop.checkout().session(RAY)) == (8, 8)
    assert model_server.keys == {f"Bearer {WORKERS_KEY}"}


@pytest.mark.usefixtures("cluster")
def test_what_agents_of_workers_did_makes_the_same_record(with_agents):
    checkout = with_agents("one", f'{KILL_WORKER}echo "${{MORTAL:-nobody}}" >> PLACE/workers\n')
    workers = checkout.folder.parent / "workers"
    checkout.step(*FEW)
    shared, made = checkout.trees(), Counter(shell_agent.made(checkout.folder))
    assert len(workers.read_text("utf-8").split()) == made.total() > 0
    assert "nobody" not in workers.read_text("utf-8")
    checkout.git("update-ref", "-d", "refs/heads/skillopt/demo")
    checkout.step("cache.path=../another.sqlite")
    assert checkout.trees() == shared
    assert Counter(shell_agent.made(checkout.folder)) == made + made


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_is_killed_loses_nothing(with_agents, capsys):
    shared, alone = (with_agents(name, KILL_WORKER) for name in ("shared", "alone"))
    (shared.folder.parent / "kill").write_text("3", encoding="utf-8")
    notes: list[Event] = []
    shared.step(*FEW, observer=notes.append)
    alone.step()
    assert not (shared.folder.parent / "kill").exists()
    assert Counter(shell_agent.made(shared.folder)) == Counter(shell_agent.made(alone.folder))
    assert shared.record(1) == alone.record(1)
    assert not _troubles(notes)
    assert capsys.readouterr().out == ""  # results stand there, and no words of Ray's


@pytest.mark.usefixtures("cluster")
def test_an_agents_attempt_that_was_broken_off_here_goes_on_here(checkout, model_server):
    agent = ("rollout.solver={type: agent}", "rollout.computer={type: unconfined}")
    settings = (*agent, "evaluation.sel_env_num=1")
    with pytest.raises(BudgetExhausted):
        _measured(checkout.session(*settings, "budget.step.calls=1"))
    begun = model_server.answered.copy()
    assert begun.total() == 1
    # what was left of it
    assert _measured(checkout.session(RAY, *settings), "another") == (1, 1)
    assert model_server.answered & begun == begun
    assert model_server.answered.total() == 2
    assert f"Bearer {WORKERS_KEY}" not in model_server.keys
    # one that was not begun is made by a worker
    assert _measured(checkout.session(RAY, *agent, "evaluation.sel_env_num=2"), "a third")[0] == 2
    assert f"Bearer {WORKERS_KEY}" in model_server.keys


@pytest.mark.usefixtures("cluster")
def test_what_no_worker_survives_is_done_here(with_agents):
    deadly = f'{KILL_WORKER}[ -z "$MORTAL" ] || {{ kill -9 "$MORTAL"; exit; }}\n'
    checkout, notes = with_agents("one", deadly), list[Event]()
    settings = ("rollout.executor={type: ray, restarts: 0}", "evaluation.sel_env_num=2")
    assert _measured(checkout.session(*settings, observer=notes.append)) == (2, 2)
    assert len(shell_agent.made(checkout.folder)) == 2
    (trouble,) = _troubles(notes)
    assert "its process died" in trouble


@pytest.mark.usefixtures("cluster")
def test_a_budget_holds_for_all_workers_together(pair, model_server):
    shared, alone = pair
    for checkout, overrides in ((shared, (RAY,)), (alone, ())):
        model_server.answered.clear()
        with pytest.raises(BudgetExhausted, match=r"budget\.step\.calls"):
            _measured(checkout.session(*overrides, "budget.step.calls=5"))
        assert model_server.answered.total() == 5


@pytest.mark.usefixtures("cluster")
def test_cancelling_ends_what_runs_on_the_worker(with_agents):
    checkout = with_agents("one", 'echo $$ > "PIPE"\nexec sleep 1000\n')
    pipe = checkout.folder.parent / "pipe"
    os.mkfifo(pipe)
    agent = checkout.folder / "agent.sh"
    agent.write_text(agent.read_text("utf-8").replace("PIPE", str(pipe)), encoding="utf-8")

    async def cancelled() -> int:
        session = checkout.session(RAY, "model.target.max_concurrency=1")
        work = asyncio.create_task(_roll_out(session))
        process = int(await asyncio.to_thread(pipe.read_text))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return process

    process = asyncio.run(cancelled())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_run_with_nothing_to_do_needs_no_cluster(checkout):
    nowhere = "rollout.executor={type: ray, address: 'nowhere://here'}"
    assert _measured(checkout.session(), "one") == (8, 8)
    assert _measured(checkout.session(nowhere), "another") == (8, 0)


def test_a_cluster_that_is_not_there_is_named(checkout):
    override = "rollout.executor={type: ray, address: 'nowhere://here'}"
    done = skillopt_ci(checkout.folder, "step", "-q", "-o", override)
    assert done.returncode == ExitCode.INFRASTRUCTURE, done.stderr
    assert "no Ray cluster at 'nowhere://here'" in done.stderr
    assert "address: local" in done.stderr


def test_a_missing_package_is_named(checkout, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(checkout.folder)
    monkeypatch.setenv("DEMO_KEY", "k")
    assert [main([command, "-q", "-o", RAY]) for command in ("step", "check")] == [2, 2]
    assert "".join(capsys.readouterr()).count("[ray]' (or pipx runpip skillopt-ci install …)") == 2


@pytest.mark.parametrize(
    ("override", "words"),
    [("cache.enabled=false", "cache"), ("rollout.solver={type: human}", "person")],
)
def test_what_can_never_be_shared_is_refused(checkout, override, words):
    with pytest.raises(UsageError, match=words):
        _measured(checkout.session(RAY, override))


class TestWorker:
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setenv("DEMO_KEY", WORKERS_KEY)

    def test_answers_are_handed_over_and_nothing_stays(self, checkout, tmp_path, capsys):
        own = "class Items(a.Environment):\n tasks = lambda *_: []\n close = lambda _: {}['lost']\n"
        checkout.write("own.py", f"import skillopt_ci.environments.api as a\n{own}")
        handover = _made(_parcel(checkout, "environment=own.py:Items", "tasks=null"))
        assert (handover.trouble, "Items.close raised" in capsys.readouterr().err) == ("", True)
        assert [json.loads(line).get("paid_by") for line in handover.answers] == [None, ""]
        assert list((tmp_path / f"skillopt-ci-{os.getuid()}").iterdir()) == []

    def test_attempts_side_by_side_hand_over_their_own_answers(self, checkout, tmp_path):
        tasks = checkout.session().selection[:3]
        parcel = _parcel(checkout)
        parcels = [replace(parcel, order=replace(parcel.order, task=task)) for task in tasks]

        async def all_at_once() -> list[Handover]:
            return await asyncio.gather(*map(Worker().make, parcels))

        handovers = asyncio.run(all_at_once())
        assert [len(one.answers) for one in handovers] == [2, 2, 2]
        assert len({one.answers[1] for one in handovers}) == 3
        assert list((tmp_path / f"skillopt-ci-{os.getuid()}").iterdir()) == []

    def test_what_was_paid_for_is_handed_over_after_a_failure_too(self, checkout, model_server):
        model_server.trouble = lambda prompt: (503, "busy") if "rubric" in prompt.lower() else None
        rubric = "scorer={type: rubric, rubric: 'The rubric: is it right?'}"
        handover = _made(_parcel(checkout, rubric))
        assert len(handover.answers) == 2
        assert "busy" in handover.trouble

    def test_the_work_of_one_that_died_is_taken_up(self, checkout, model_server, monkeypatch):
        parcel = _parcel(checkout)

        with monkeypatch.context() as patch:  # it dies before it cleans up
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            died = _made(parcel, "worker")
        assert _made(parcel, "worker") == died
        assert model_server.answered.total() == 1

    def test_no_secret_of_the_worker_is_handed_over(self, checkout, model_server, monkeypatch):
        monkeypatch.setattr(model_server, "answer", lambda *_: f"I know {WORKERS_KEY}")
        handover = _made(_parcel(checkout))
        assert HIDDEN in "".join(handover.answers)
        assert WORKERS_KEY not in "".join(handover.answers)
        model_server.trouble = lambda prompt: (400, f"no model for {WORKERS_KEY}")
        assert WORKERS_KEY not in _made(_parcel(checkout)).trouble

    def test_its_share_of_the_budget_ends_it_without_a_word(self, checkout):
        handover = _made(_parcel(checkout, limits=Limits(calls=0)))
        assert (len(handover.answers), handover.trouble) == (1, "")

    def test_a_folder_that_it_cannot_use_is_its_trouble(self, checkout, tmp_path):
        assert "nowhere" in _made(_parcel(checkout, "prompts=nowhere")).trouble
        (tmp_path / f"skillopt-ci-{os.getuid()}").chmod(0o777)
        assert "somebody else" in _made(_parcel(checkout)).trouble


def _made(parcel: Parcel, name: str = "") -> Handover:
    async def make() -> Handover:
        return await Worker(name).make(parcel)

    return asyncio.run(make())


def _measured(session: Run, scope: str = "scope") -> tuple[int, int]:
    """Measured attempts at the selection tasks, and calls that were paid for."""
    return asyncio.run(_roll_out(session, scope))


async def _roll_out(session: Run, scope: str = "scope") -> tuple[int, int]:
    async with session.models(scope) as models:
        skill = (session.root / session.config.skill).read_text(encoding="utf-8")
        requests = [AttemptRequest(task, skill, "evaluate") for task in session.selection]
        rollouts = await models.runner.carry_out(requests)
    return sum(one.status.measured for one in rollouts), models.meter.total().calls


def _troubles(notes: list[Event]) -> list[str]:
    return [one.text for one in notes if isinstance(one, Note) and "Ray worker" in one.text]


def _parcel(checkout: Checkout, *overrides: str, limits: Limits | None = None) -> Parcel:
    config = load(checkout.folder / "skillopt.yaml", overrides).config.model_dump_json()
    order = AttemptRequest(checkout.session().selection[0], "# Items\n", "evaluate")
    return Parcel(config, str(checkout.folder), order, limits or Limits())

"""Real worker processes with a little side of their own."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from computer_kinds import assert_gone
from programs import write_program

from skillopt_ci import confinement
from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.worker import Worker, WorkerGone

pytestmark = pytest.mark.integration

SIDE = """
import os, signal, subprocess, sys, time
from fractions import Fraction
from pathlib import Path
from skillopt_ci.errors import UsageError

print("noise on standard output while loading")
STATE = []

class Side:
    def __init__(self, options, root):
        self.options, self.root = options, root
        self.shares_process = "shared" in options

    def tasks(self):
        return ["a", "b"]

    def facts(self):
        return {"environ": dict(os.environ), "cwd": os.getcwd()}

    def attempt(self, job, folder):
        print("noise of an attempt")
        STATE.append(job["do"])
        match job["do"]:
            case "add":
                return {"sum": Fraction(job["x"] + job["y"]), "pid": os.getpid(), "state": STATE}
            case "meet":
                Path(job["place"], str(os.getpid())).touch()
                while len(os.listdir(job["place"])) < 3:
                    time.sleep(0.01)
                return {}
            case "raise":
                raise RuntimeError("something\\nbroke")
            case "die":
                print("last words", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            case "set":
                return {"x": {1}}
            case "hang":
                child = subprocess.Popen(["sleep", "1000"])
                Path(job["pids"]).write_text(f"{os.getpid()} {child.pid}")
                time.sleep(1000)
            case "leave":
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
                return {}

def open_side(options, root):
    if "wrong" in options:
        raise UsageError("say what is wrong")
    if "crash" in options:
        raise KeyError("crash")
    if "stuck" in options:
        time.sleep(1000)
    if "exit" in options:
        os._exit(3)
    return Side(options, root)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    (tmp_path / "little_side.py").write_text(SIDE, encoding="utf-8")
    workers: list[Worker] = []

    def begin(**options: object) -> Worker:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
        seconds = 1.0 if "stuck" in options else 600.0
        worker = Worker("little_side", options, tmp_path, environ, "environment little", seconds)
        workers.append(worker)
        return worker

    yield begin
    for worker in workers:
        worker.close()


def attempts(worker: Worker, *jobs: dict[str, object]) -> list[Any]:
    async def run() -> list[Any]:
        return await asyncio.gather(*(worker.attempt(job) for job in jobs), return_exceptions=True)

    return asyncio.run(run())


def test_a_side_is_loaded_once_and_sees_only_what_it_may(start, tmp_path):
    worker = start()
    assert (worker.tasks, worker.facts["cwd"]) == (["a", "b"], str(tmp_path))
    assert set(worker.facts["environ"]) - {"LC_CTYPE"} == {"PATH", "PYTHONPATH"}


def test_attempts_have_a_process_each_and_share_no_state(start):
    found = attempts(start(), *[{"do": "add", "x": n, "y": 1} for n in range(8)])
    assert [one["sum"] for one in found] == list(range(1, 9))
    assert len({one["pid"] for one in found}) == 8
    assert all(one["state"] == ["add"] for one in found)


def test_neither_forks_that_end_at_one_moment_nor_event_loops_end_the_worker(start):
    worker = start()
    for _ in range(10):  # each in a loop of its own
        found = attempts(worker, *({"do": "add", "x": n, "y": 1} for n in range(8)))
        assert [one["sum"] for one in found] == list(range(1, 9))


def test_attempts_of_a_side_that_shares_processes_follow_one_another(start, tmp_path):
    worker = start(shared=True)
    (first,) = attempts(worker, {"do": "add", "x": 1, "y": 1})
    (second,) = attempts(worker, {"do": "add", "x": 2, "y": 2})
    assert (second["pid"], second["sum"], second["state"]) == (first["pid"], 4, ["add", "add"])
    (tmp_path / "place").mkdir()
    meeting = {"do": "meet", "place": str(tmp_path / "place")}
    assert attempts(worker, meeting, meeting, meeting) == [{}, {}, {}]
    (died,) = attempts(worker, {"do": "die"})
    assert isinstance(died, EnvironmentFailure)
    assert attempts(worker, {"do": "add", "x": 5, "y": 1})[0]["sum"] == 6


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("raise", "RuntimeError: something broke ("),
        ("die", "ended without a result: noise of an attempt last words"),
        ("set", "not 'set'"),
    ],
)
def test_a_failed_attempt_is_infrastructure_and_harms_no_other(start, do, said):
    failed, done = attempts(start(), {"do": do}, {"do": "add", "x": 1, "y": 1})
    assert isinstance(failed, EnvironmentFailure)
    assert said in failed.message
    assert done["sum"] == 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("wrong", "environment little: say what is wrong"),
        ("crash", "environment little: KeyError: 'crash'"),
        ("exit", "environment little: the worker ended at once"),
        ("stuck", "environment little: it did not load within 1 s"),
    ],
)
def test_a_side_that_cannot_be_loaded_is_the_users_to_mend(start, option, said):
    with pytest.raises(UsageError) as error:
        start(**{option: True})
    assert error.value.message.startswith(said)


def test_a_cancelled_attempt_leaves_nothing_running(start, tmp_path):
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(hang(start(), tmp_path / "pids", asyncio.Task.cancel))
    assert_gone(tmp_path / "pids")


def test_closing_ends_what_is_under_way(start, tmp_path):
    worker = start()
    with pytest.raises(EnvironmentFailure, match="gone"):
        asyncio.run(hang(worker, tmp_path / "pids", lambda _: worker.close()))
    assert_gone(tmp_path / "pids")


def test_closing_ends_a_sandbox_in_which_something_goes_on(start, tmp_path, monkeypatch):
    monkeypatch.setattr("skillopt_ci.worker._PATIENCE", 0.5)
    confinement.confine(tmp_path, {"PATH": os.environ["PATH"]})
    if confinement.current().kind != "sandbox":
        pytest.skip("needs bubblewrap and user namespaces")
    worker = start()
    assert attempts(worker, {"do": "leave"}) == [{}]
    closing = threading.Thread(target=worker.close)
    closing.start()
    closing.join(60)
    ended = not closing.is_alive()
    with suppress(ProcessLookupError):
        os.killpg(worker._process.pid, signal.SIGKILL)
    assert ended


def test_programs_in_a_hidden_home_leave_the_sandbox_possible(tmp_path):
    for folder in (".cargo/bin", "work/.git"):
        (tmp_path / folder).mkdir(parents=True)
    path = f"{tmp_path}/.cargo/bin:{os.environ['PATH']}"
    kinds = []
    for more in ({}, {"GITHUB_ACTIONS": "true"}, {"HOME": "/"}):
        confinement.confine(tmp_path / "work", {"HOME": str(tmp_path), "PATH": path, **more})
        kinds.append(confinement.current().kind)
    assert len({*kinds}) == 1, kinds


def test_a_program_that_fails_without_a_word_confines_nothing(tmp_path):
    write_program(tmp_path / "bwrap", "exit 3")
    confinement.confine(tmp_path, {"PATH": str(tmp_path)})
    assert confinement.current().reason.startswith("bwrap: it ended with 3; ")


def test_without_a_worker_an_attempt_fails_at_once(start):
    worker = start()
    worker.close()
    (failed,) = attempts(worker, {"do": "add", "x": 1, "y": 1})
    assert isinstance(failed, EnvironmentFailure)


def test_a_worker_that_is_still_dying_takes_no_attempt(start, monkeypatch):
    worker = start()
    os.killpg(worker._process.pid, signal.SIGKILL)
    worker._reader.join()
    # as if the kernel had not ended it yet: its pipe still takes what is written
    monkeypatch.setattr(worker._process, "poll", lambda: None)
    with Path(os.devnull).open("wb") as orders:
        monkeypatch.setattr(worker, "_orders", orders)
        begun = worker.attempt({"do": "add", "x": 1, "y": 2})
        with pytest.raises(WorkerGone):
            begun.send(None)
    monkeypatch.undo()


async def hang(worker: Worker, pids: Path, end: Callable[[asyncio.Task[Any]], object]) -> None:
    running = asyncio.create_task(worker.attempt({"do": "hang", "pids": str(pids)}))
    async with asyncio.timeout(60):
        while not (pids.exists() and len(pids.read_text().split()) == 2):
            await asyncio.sleep(0.01)
    end(running)
    await running

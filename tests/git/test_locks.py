import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forked
import pytest

from skillopt_ci.errors import LostRace, RepositoryError
from skillopt_ci.git.locks import STALE_SECONDS, clear_stale_locks, is_held, run_lock
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import read

SKILLS = "refs/heads/skillopt/demo"

HOLDER = """
import sys
from pathlib import Path
from skillopt_ci.git.locks import run_lock
with run_lock(Path(sys.argv[1]), "demo"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_holder_loses_at_once(tmp_path):
    with (
        run_lock(tmp_path, "demo"),
        pytest.raises(LostRace, match="another skillopt-ci is training run 'demo'"),
        run_lock(tmp_path, "demo"),
    ):
        pass
    with run_lock(tmp_path, "demo"), run_lock(tmp_path, "other"):
        assert (tmp_path / "skillopt-ci").is_dir()


def test_lock_is_free_again_after_an_error_and_says_what_it_needs(tmp_path):
    with pytest.raises(ZeroDivisionError), run_lock(tmp_path, "demo"):
        raise ZeroDivisionError
    with run_lock(tmp_path, "demo"), pytest.raises(RepositoryError, match="free space and flock"):
        run_lock(tmp_path / "skillopt-ci/demo.lock", "demo").__enter__()


def test_killed_holder_holds_nothing(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(tmp_path, "demo")
        with pytest.raises(LostRace), run_lock(tmp_path, "demo"):
            pass
        holder.kill()
    with run_lock(tmp_path, "demo"):
        pass


def test_to_ask_who_holds_it_takes_nothing(tmp_path):
    assert not is_held(tmp_path, "demo")
    assert not (tmp_path / "skillopt-ci").exists()
    with run_lock(tmp_path, "other"), run_lock(tmp_path, "demo"):
        assert is_held(tmp_path, "demo")
    assert not is_held(tmp_path, "demo")


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = time.time()
        self.waited = 0.0

    def read(self) -> float:
        return self.now + self.waited

    def pause(self, seconds: float) -> None:
        self.waited += seconds


def clear(repository: Path, clock: Clock, told: list[str]) -> list[str]:
    """Clear the locks of a run without a remote; return what was ``told``."""
    names = (SKILLS, "refs/heads/skillopt-candidate/demo")
    git, common = Git(repository), repository / ".git"
    clear_stale_locks(git, common, names, told.append, clock=clock.read, pause=clock.pause)
    return told


LEFT = [
    f"{SKILLS}.lock",
    "refs/heads/skillopt-candidate/demo.lock",
    "refs/skillopt-ci/deleted/skillopt/demo/0123456789ab.lock",
    "packed-refs.lock",
    "packed-refs.new",
    "shallow.lock",
    "reftable/tables.list.lock",
]


@pytest.mark.parametrize("left", LEFT)
def test_old_lock_is_removed_at_once(repository, left):
    file = repository / ".git" / left
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    clock = Clock()
    clock.now += STALE_SECONDS + 1
    (words,) = clear(repository, clock, [])
    assert str(file) in words
    assert not file.exists()
    assert clock.waited == 0
    file.mkdir()
    with pytest.raises(RepositoryError, match=f"{file}, and it cannot be removed"):
        clear(repository, clock, [])


def test_young_lock_is_removed_when_it_is_old_enough(repository):
    file = repository / ".git" / "packed-refs.lock"
    file.touch()
    clock = Clock()
    waiting, removed = clear(repository, clock, [])
    assert waiting.startswith(f"Waiting for {file}: removed when 30 s old")
    assert removed.startswith(f"Removed {file}")
    assert STALE_SECONDS - 1 < clock.waited < STALE_SECONDS + 1


def test_lock_of_another_branch_is_left_alone(repository):
    others = [repository / ".git/refs/heads" / name for name in ("main.lock", "skillopt/x.lock")]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.touch()
        os.utime(other, (0, 0))
    assert clear(repository, Clock(), []) == []
    assert all(other.exists() for other in others)


@pytest.fixture
def owner(repository: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A git at work that holds the lock of the skills branch."""
    command = ["git", "update-ref", "--stdin"]
    with subprocess.Popen(
        command, cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"start\ncreate {SKILLS} HEAD\nprepare\n".encode())
        process.stdin.flush()
        assert process.stdout.readline() + process.stdout.readline() == b"start: ok\nprepare: ok\n"
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_lock_of_a_living_git_stays(repository, owner):
    lock = repository / f".git/{SKILLS}.lock"
    os.utime(lock, (0, 0))
    told = list[str]()
    with pytest.raises(RepositoryError, match=rf"git \(process {owner.pid}\) is at work"):
        clear(repository, Clock(), told)
    assert told == [f"Waiting for {lock}: git (process {owner.pid}) may hold it."]
    assert lock.exists()
    owner.kill()
    owner.wait()
    assert lock.exists()
    (words,) = clear(repository, Clock(), [])
    assert words.startswith(f"Removed {lock}")


def test_lock_that_its_git_lets_go_of_is_waited_for(repository, owner):
    class Committing(Clock):
        def pause(self, seconds: float) -> None:
            super().pause(seconds)
            owner.communicate(b"commit\n")

    clock = Committing()
    assert clear(repository, clock, []) == []
    assert clock.waited < 1
    assert read(Git(repository), SKILLS)


#: Kills the whole process group, git and trainer, while git holds its locks.
KILL_GROUP = '[ "$1" != prepared ] || kill -9 0'

#: A step of a run, up to the n-th transaction of local refs.
TRAINER = """
import sys
from pathlib import Path
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.config import config

ledger = Ledger.open(Path(sys.argv[1]), "demo", config.Git())
with ledger.lock():
    position = ledger.sync()
    candidate = position.candidate
    if candidate is None and position.tip is None:
        candidate = ledger.commit((position.head,), position.head, {"a": "trained"}, "Write")
        ledger.push_candidate(candidate)
    if candidate is not None:
        ledger.advance(position.tip, candidate, candidate)
"""


def train(folder: Path) -> int:
    return forked.run(["-c", TRAINER, folder], cwd=folder, env=os.environ).returncode


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("transaction", "with_remote"), [(1, False), (2, False), (1, True), (2, True), (3, True)]
)
def test_run_survives_the_kill_of_its_group(bench, repository, here, transaction, *, with_remote):
    folder = here if with_remote else repository
    git_dir = folder / ".git"
    count = f'[ "$1" != prepared ] || echo >> "{git_dir}/count"\n'
    nth = f'[ "$(wc -l < "{git_dir}/count" | tr -d \' \')" != {transaction} ] || '
    hook = bench.hook(git_dir, "reference-transaction", f"{count}{nth}{{ {KILL_GROUP}; }}")
    assert train(folder) == -signal.SIGKILL
    locks = [file for file in git_dir.rglob("*.lock") if file.parent.name != "skillopt-ci"]
    assert locks
    hook.unlink()
    for lock in locks:
        os.utime(lock, (0, 0))
    assert train(folder) == 0
    assert not any(lock.exists() for lock in locks)
    position = bench.open(folder).sync()
    assert position.tip is not None
    assert position.candidate is None
    assert len(bench.open(folder).log(f"{position.base}..{position.tip}")) == 1

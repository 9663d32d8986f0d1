"""However a computer ends, nothing of it is left: also where its process was killed."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from computer_kinds import CONFINED, EVERY, SPEC, computers, desk, eventually, processes_with

import skillopt_ci
from skillopt_ci.computer.docker import LABEL
from skillopt_ci.computer.sandbox_limits import usable_hierarchies
from skillopt_ci.liveness import is_gone, this_process

pytestmark = pytest.mark.integration
#: Opens a computer, runs something in it that never ends, and says so.
RUN_ON = """\
import asyncio, sys
sys.path[:0] = sys.argv[1].split(":")
from computer_kinds import SPEC, computers

kinds = computers(sys.argv[2])

async def run_on():
    async with kinds.open(SPEC) as computer:
        print("open", flush=True)
        await computer.run(["sh", "-c", sys.argv[3]], timeout=600)

asyncio.run(run_on())
"""
SCRATCH = "from skillopt_ci.liveness import scratch_folder; scratch_folder('x').cleanup()"


def groups_of(pid: int) -> list[Path]:
    hierarchies = usable_hierarchies() or ()
    folders = (folder for one in hierarchies for folder in one.folder.glob("skillopt-ci_*"))
    return [folder for folder in folders if f"-{pid}-" in folder.name]


def containers_of(pid: int) -> list[str]:
    if "SKILLOPT_CI_TEST_IMAGE" not in os.environ:
        return []
    shown = f'{{{{.Names}}}} {{{{.Label "{LABEL}"}}}}'
    words = ["docker", "ps", "--all", "--filter", f"label={LABEL}", "--format", shown]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"-{pid}-" in line]


def mounts() -> set[str]:
    """What is mounted, an engine's own mounts left out: containers of other tests come and go."""
    engine = os.environ.get("DOCKER_HOST", "").removeprefix("unix://").removesuffix("docker.sock")
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if (engine or "docker") not in line and "docker" not in line}


def left_of(pid: int, marker: str) -> list[object]:
    return [*groups_of(pid), *containers_of(pid), *processes_with(marker)]


@pytest.mark.parametrize("kind", EVERY)
def test_nothing_is_left_of_one_that_is_closed(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    marker, before = uuid.uuid4().hex, mounts()
    try:
        with desk(kind) as opened:
            opened.sh("echo x > file; mkdir -m 0 locked")
            opened.sh(f"mkdir -p {'d/' * 1_500}")  # deeper than Python's own functions go
            opened.sh(f"sleep 600; : {marker}", timeout=0.3)
            if kind in {"sandbox", "docker"}:
                assert left_of(os.getpid(), marker)
        assert eventually(lambda: not left_of(os.getpid(), marker))
        assert list(tmp_path.iterdir()) == []
    finally:  # pytest could not remove it either: each later run would end with its error
        subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)
    if kind != "docker":
        assert mounts() <= before


@pytest.mark.parametrize("kind", EVERY)
def test_nothing_is_left_of_one_whose_user_fails(kind):
    kinds = computers(kind)

    async def fail() -> None:
        async with kinds.open(SPEC) as computer:
            await computer.run(["true"], timeout=60)
            raise LookupError("the user's own")

    with pytest.raises(LookupError):
        asyncio.run(fail())
    assert eventually(lambda: not left_of(os.getpid(), uuid.uuid4().hex))


def inside(marker: str) -> list[int]:
    """Return the processes in a PID namespace that is not ours."""
    ours = Path("/proc/self/ns/pid").stat().st_ino
    found = []
    for pid in processes_with(marker):
        with suppress(OSError):
            found += [pid] if Path(f"/proc/{pid}/ns/pid").stat().st_ino != ours else []
    return found


@contextmanager
def killed_while_running(kind: str, marker: str) -> Iterator[int]:
    """Kill a process that has a computer open, and yield its number."""
    computers(kind)  # or skip
    script, path = f"while :; do sleep 1; done; : {marker}", os.pathsep.join(sys.path)
    words = [sys.executable, "-c", RUN_ON, path, kind, script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=dict(os.environ)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"open\n"
        assert eventually(lambda: bool(inside(marker)))
        running.kill()
        running.wait()
        yield running.pid


@pytest.mark.parametrize("kind", ["sandbox", "uncounted"])
def test_a_sandbox_dies_with_the_process_that_opened_it(kind):
    marker = uuid.uuid4().hex
    with killed_while_running(kind, marker) as pid:
        assert eventually(lambda: not processes_with(marker))
        if kind == "sandbox":
            assert groups_of(pid)
            assert eventually(lambda: computers_checked(kind) and not groups_of(pid))


def test_a_killed_process_s_folder_is_removed_and_one_in_use_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = [sys.executable, "-c", RUN_ON, os.pathsep.join(sys.path), "unconfined", "sleep 5"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with (
        desk("unconfined") as opened,
        subprocess.Popen(words, stdout=subprocess.PIPE, env=environ) as running,
    ):
        assert running.stdout is not None
        assert running.stdout.readline() == b"open\n"
        in_use, left = sorted(tmp_path.iterdir(), key=lambda one: f"-{running.pid}-" in one.name)
        running.kill()
        running.wait()
        subprocess.run(["mkdir", "-p", f"{left}/{'d/' * 1_500}"], check=True)
        subprocess.run([sys.executable, "-c", SCRATCH], env=environ | {"PATH": "/x"}, check=True)
        assert left.exists()
        subprocess.run([sys.executable, "-c", SCRATCH], env=environ, check=True)
        assert not left.exists()
        assert list(tmp_path.iterdir()) == [in_use]
        assert opened.sh("echo alive").stdout == "alive\n"


def test_an_orphaned_container_is_removed_and_one_in_use_is_not():
    marker = uuid.uuid4().hex
    with desk("docker") as opened, killed_while_running("docker", marker) as pid:
        assert containers_of(pid)
        assert computers_checked("docker")
        assert eventually(lambda: not left_of(pid, marker))
        assert opened.sh("echo alive").stdout == "alive\n"


def computers_checked(kind: str) -> bool:
    computers(kind).check()
    return True


@pytest.mark.parametrize("kind", CONFINED)
def test_opening_can_be_cancelled_at_any_moment(kind):
    kinds = computers(kind)

    async def cancel(after: int) -> None:
        async def work() -> None:
            async with kinds.open(SPEC) as computer:
                await computer.run(["true"], timeout=60)

        task = asyncio.create_task(work())
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for after in (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000):
        asyncio.run(cancel(after))
    assert eventually(lambda: not left_of(os.getpid(), uuid.uuid4().hex))


@pytest.mark.parametrize("kind", EVERY)
def test_closing_is_not_broken_off(kind):
    kinds = computers(kind)

    async def cancelled_at_the_end() -> None:
        async with kinds.open(SPEC):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # heard at the first wait of the closing

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled_at_the_end())
    assert not [*groups_of(os.getpid()), *containers_of(os.getpid())]


def test_a_process_is_gone_when_it_has_ended_or_its_number_is_anothers():
    space, _, _ = this_process().split("-")
    with subprocess.Popen(["sleep", "600"]) as process:
        start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        name = f"{space}-{process.pid}-{start}"
        assert not is_gone(name)
        assert is_gone(f"{space}-{process.pid}-1")  # the number is another process' now
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(name)
    assert not is_gone(this_process())


@pytest.mark.parametrize("name", ["", "x", "0-1-2", f"{'0' * 12}-1", f"{'0' * 12}-1-1"])
def test_what_is_no_name_or_another_machines_is_never_gone(name):
    assert not is_gone(name)


# The sandbox of a user without any rights: what it promises holds as well.

ATTEMPTS = """\
import asyncio, json, os
from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.sandbox import Sandboxes

sandboxes = Sandboxes(os.defpath, hierarchies=lambda: None)
sandboxes.check()
ATTEMPTS = {
    "works": "echo x > file && cat file",
    "network": "cat /proc/net/dev",
    "root": "id -u; grep CapEff /proc/self/status",
    "outside": "cat OUTSIDE",
    "processes": "for n in $(seq 60); do sleep 9 & done; echo all begun",
    "memory": "python3 -c 'bytearray(200 << 20)' && echo held",
    "disk": "head -c 30M /dev/zero > big && echo written",
    "system": "echo x > /usr/x && echo written",
    "more namespaces": "unshare --user true && echo made",
}

async def attempt():
    spec = ComputerSpec(memory_mb=96, processes=48, disk_mb=16)
    async with sandboxes.open(spec) as computer:
        told = {}
        for name, script in ATTEMPTS.items():
            done = await computer.run(["sh", "-c", script], timeout=60)
            told[name] = [done.exit_code, done.stdout]
        return told

print(json.dumps([os.getuid(), asyncio.run(attempt())]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="all other tests are an ordinary user's")
def test_nobody_is_confined_as_well(tmp_path_factory):
    computers("uncounted")  # or skip
    python = shutil.which("python3", path="/usr/bin")
    newer = python and subprocess.run([python, "-c", "from enum import StrEnum"], check=False)
    if python is None or newer is None or newer.returncode:
        pytest.skip("the system's own Python is older than 3.11")
    shelf = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    try:
        source = Path(skillopt_ci.__file__).parent
        shutil.copytree(source / "computer", shelf / "skillopt_ci/computer")
        for name in ("__init__", "aio", "confinement", "errors", "liveness", "program"):
            shutil.copy(source / f"{name}.py", shelf / "skillopt_ci")
        subprocess.run(["chmod", "-R", "a+rX", str(shelf)], check=True)
        outside = shelf / "outside"
        outside.write_text("s3cr3t")
        done = subprocess.run(
            [
                *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"),
                *(python, "-B", "-c", ATTEMPTS.replace("OUTSIDE", str(outside))),
            ],
            env={"PYTHONPATH": str(shelf), "PATH": os.defpath},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        user, told = json.loads(done.stdout)
    finally:
        shutil.rmtree(shelf)
    assert user == 65534
    assert told["works"] == [0, "x\n"]
    assert [row.split(":")[0].strip() for row in told["network"][1].splitlines()[2:]][:1] == ["lo"]
    assert "eth" not in told["network"][1]
    assert told["root"] == [0, "1000\nCapEff:\t0000000000000000\n"]
    for name in ("outside", "processes", "memory", "disk", "system", "more namespaces"):
        assert (told[name][0] != 0, told[name][1]) == (True, ""), name

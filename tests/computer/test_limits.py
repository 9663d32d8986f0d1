"""Every limit holds, and an attempt beyond it succeeds where there is none."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from computer_kinds import CONFINED, SPEC, desk

from skillopt_ci.errors import FileRefused

pytestmark = pytest.mark.integration

FORKS = """\
import os, sys, time
children = 0
try:
    for _ in range(int(sys.argv[1])):
        child = os.fork()
        if child == 0:
            time.sleep(600)
        children += 1
except OSError:
    pass
print(children)
"""
MEMORY = "x = bytearray(int(__import__('sys').argv[1]) << 20); print(len(x))"
SHARED_MEMORY = """\
import mmap, sys
x = mmap.mmap(-1, int(sys.argv[1]) << 20)
for at in range(0, len(x), 4096):
    x[at] = 1
print(len(x))
"""
HIDDEN_MEMORY = """\
import os, sys
file = os.memfd_create("hidden")
written = 0
while written < int(sys.argv[1]) << 20:
    written += os.write(file, bytes(1 << 20))
print(written)
"""
#: Four processes hold memory at the same time; prints how many of them were killed for it.
MANY = """\
import os
gate, end = os.pipe()
ready, tell = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.close(end)
        x = bytearray(40 << 20)
        os.close(tell)
        os.read(gate, 1)
        os._exit(0)
os.close(tell)
os.read(ready, 1)
os.close(end)
print(sum(os.wait()[1] != 0 for _ in range(4)))
"""


def test_processes(cell, trusted):
    wanted = SPEC.processes + 20
    assert trusted.python(FORKS, wanted).stdout == f"{wanted}\n"
    assert 0 < int(cell.python(FORKS, wanted).stdout) <= SPEC.processes
    assert cell.sh("echo usable").stdout == "usable\n"


def test_a_fork_bomb(cell):
    assert cell.run("python3", "-c", "import os\nwhile True: os.fork()", timeout=1.5).exit_code != 0
    assert cell.sh("echo usable").stdout == "usable\n"
    assert cell.read("/proc/self/comm") != b""


@pytest.mark.parametrize("attempt", [MEMORY, SHARED_MEMORY, HIDDEN_MEMORY])
def test_memory(cell, trusted, attempt):
    assert trusted.python(attempt, 200).stdout == f"{200 << 20}\n"
    done = cell.python(attempt, 200)
    assert done.exit_code != 0
    assert done.stdout == ""
    if cell.kind != "uncounted":
        assert (done.exit_code, done.limit) == (137, "memory")
    assert cell.python(MEMORY, 20).stdout == f"{20 << 20}\n"


@pytest.mark.parametrize("kind", ["sandbox", "docker"])
def test_memory_of_all_processes_together(kind):
    with desk("unconfined") as free:
        assert free.python(MANY).stdout == "0\n"
    with desk(kind, memory_mb=64, disk_mb=4) as opened:
        done = opened.python(MANY)
        assert done.exit_code == 137 or int(done.stdout) > 0
        assert opened.python(MEMORY, 40).exit_code == 0


@pytest.mark.parametrize("folder", [".", "/tmp", "$HOME", "/dev/shm"])
def test_disk(cell, folder):
    done = cell.sh(f"head -c 30M /dev/zero > {folder}/agent-big")
    assert done.exit_code != 0
    assert "No space left on device" in done.stderr or done.limit == "memory"
    if folder != "/dev/shm":
        assert done.limit == "disk"
    cell.sh(f"rm {folder}/agent-big")
    small = cell.sh(f"head -c 1M /dev/zero > {folder}/agent-small && rm {folder}/agent-small")
    assert small.limit == ""


def test_what_fills_a_disk_succeeds_elsewhere(trusted):
    assert trusted.sh("head -c 30M /dev/zero > big && rm big").exit_code == 0


def test_a_file_that_does_not_fit_is_refused(cell):
    with pytest.raises(FileRefused, match="cannot be written"):
        cell.write("big", bytes(30 << 20))
    assert cell.sh("ls -A").stdout == ""
    done = cell.python("for n in range(40_000): open(str(n), 'w').close()")
    assert "No space left on device" in done.stderr
    assert done.limit == "disk"
    cell.python("import os\nfor name in os.listdir(): os.remove(name)")


@pytest.mark.parametrize("kind", ["sandbox", "docker"])
def test_processors_in_part(kind):
    """A fifth of a second's work takes two at a tenth of a processor, less what comes at once."""
    with desk(kind, cpus=0.1) as opened:
        assert opened.python("import time\nwhile time.process_time() < 0.2: pass").seconds > 1.0


def test_processors_as_a_whole():
    spread = "import os; os.sched_setaffinity(0, range(64)); print(len(os.sched_getaffinity(0)))"
    with desk("uncounted", cpus=1) as opened:
        assert opened.python("import os; print(len(os.sched_getaffinity(0)))").stdout == "1\n"
        assert opened.python(spread).exit_code == 1
    with desk("unconfined") as free:
        assert free.python(spread).stdout == f"{os.cpu_count()}\n"


@pytest.mark.parametrize("kind", CONFINED)
def test_folders_of_the_host_can_be_lent_for_reading(kind):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "tool").write_text("lent")
        (folder / "tool").chmod(0o666)
        with desk(kind, readable=(folder,)) as opened:
            assert opened.run("cat", str(folder / "tool")).stdout == "lent"
            with contextlib.suppress(FileRefused):
                opened.write(str(folder / "new"), b"")
            assert opened.sh(f"echo changed > {folder}/tool").exit_code != 0
        assert [file.name for file in folder.iterdir()] == ["tool"]
        assert (folder / "tool").read_text() == "lent"

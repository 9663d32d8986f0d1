import asyncio
import os
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from computer_kinds import SPEC, computers, desk, processes_with

from skillopt_ci.computer import sandbox_limits
from skillopt_ci.computer.computer import Computer, Computers, ComputerSpec, probe
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.computer.sandbox import Sandboxes, find_programs
from skillopt_ci.computer.sandbox_limits import CONTROLLERS, Hierarchy, usable_hierarchies
from skillopt_ci.errors import ComputerUnavailable


def test_what_is_not_installed_is_named_with_its_package(tmp_path):
    with pytest.raises(ComputerUnavailable) as refused:
        find_programs(str(tmp_path))
    assert "bwrap" in refused.value.message
    assert "apt-get install bubblewrap mount util-linux" in refused.value.hint


def test_programs_of_administrators_are_found_too(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "sbin").mkdir()
    for name in ("bwrap", "unshare", "nsenter", "prlimit", "setpriv", "taskset", "mount"):
        (tmp_path / ("sbin" if name == "bwrap" else "bin") / name).touch(0o755)
    assert find_programs(str(tmp_path / "bin"))["bwrap"] == str(tmp_path / "sbin/bwrap")


@dataclass(frozen=True)
class Leaky:
    """Sandboxes with a hole: the network is always open."""

    inner: Computers
    name: str = "leaky"
    caveat: str = ""

    def check(self) -> None:
        self.inner.check()

    @asynccontextmanager
    async def open(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        async with self.inner.open(replace(spec, network="open")) as computer:
            yield computer


@pytest.mark.integration
def test_the_probe_finds_files_that_can_be_read():
    # in a folder that the next process removes if this one is killed
    with pytest.raises(ComputerUnavailable, match=r"_probe-\w+/outside can be read from inside"):
        asyncio.run(probe(Unconfined(os.environ["PATH"])))


@pytest.mark.integration
def test_the_probe_finds_a_network():
    lines = Path("/proc/net/dev").read_text().splitlines()
    devices = {line.split(":")[0].strip() for line in lines}
    if not any(name.startswith(("e", "w")) for name in devices):
        pytest.skip("this machine has no network itself")
    with pytest.raises(ComputerUnavailable, match=r"network device .* is inside"):
        asyncio.run(probe(Leaky(computers("uncounted"))))


@pytest.mark.integration
def test_what_cannot_be_lent_is_refused():
    kinds = computers("uncounted")

    async def use() -> None:
        async with kinds.open(replace(SPEC, readable=(Path("/no/such/folder"),))):
            raise AssertionError

    with pytest.raises(ComputerUnavailable, match="/no/such/folder"):
        asyncio.run(use())


@pytest.mark.integration
def test_variables_are_not_in_the_list_of_processes():
    kinds = computers("uncounted")

    async def use() -> tuple[list[int], list[int]]:
        async with kinds.open(replace(SPEC, environ={"KEY": "of-the-spec-7f3a"})) as computer:
            task = asyncio.create_task(
                computer.run(["sleep", "600.25"], timeout=600, environ={"K": "of-the-call-7f3a"})
            )
            while len(processes_with("600.25")) < 3:
                await asyncio.sleep(0)
            found = processes_with("of-the-spec-7f3a"), processes_with("of-the-call-7f3a")
            task.cancel()
            await asyncio.wait([task])  # the loop's end would break off its own clean-up
            return found

    assert asyncio.run(use()) == ([], [])


@pytest.mark.integration
def test_a_strict_umask_does_no_harm():
    computers("sandbox")  # or skip
    before = os.umask(0o077)
    try:
        with desk("sandbox") as opened:
            assert opened.sh("cat /etc/passwd && touch here /tmp/there").exit_code == 0
    finally:
        os.umask(before)


def test_what_does_not_hold_is_said():
    here = tuple[Hierarchy, ...]()
    assert "each process by itself" in Sandboxes("", hierarchies=lambda: None).caveat
    assert Sandboxes("", hierarchies=lambda: here).caveat == ""


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def proc(folder: Path, cgroup: str, *mounts: str) -> Path:
    lines = [f"{30 + n} 25 0:2{n} {mount}\n" for n, mount in enumerate(mounts)]
    return write(folder / "proc", cgroup=cgroup, mountinfo="".join(lines))


def test_version_2_groups_are_made_where_all_controllers_are_passed_on(tmp_path):
    root = write(tmp_path / "fs", cgroup__subtree_control="cpu io memory pids")
    write(root / "user", cgroup__subtree_control="cpu memory pids")
    write(root / "user/run", cgroup__subtree_control="memory pids")
    write(root / "user/run/job", cgroup__subtree_control="")
    at = proc(tmp_path, "0::/user/run/job\n", f"/ {root} rw - cgroup2 cgroup2 rw")
    assert usable_hierarchies(at) == (Hierarchy(2, root / "user", CONTROLLERS),)


def test_version_2_without_a_controller_is_no_use(tmp_path):
    root = write(tmp_path / "fs", cgroup__subtree_control="memory pids")
    assert usable_hierarchies(proc(tmp_path, "0::/\n", f"/ {root} rw - cgroup2 cgroup2 rw")) is None


def test_version_1_groups_are_made_below_our_own(tmp_path):
    memory, cpu = tmp_path / "memory", tmp_path / "cpu,cpuacct"
    write(memory / "job")
    write(cpu)
    write(tmp_path / "pids")
    at = proc(
        tmp_path,
        "4:memory:/job\n3:cpu,cpuacct:/gone\n2:pids:/\n1:name=systemd:/\n0::/\n",
        f"/ {memory} rw - cgroup cgroup rw,memory",
        f"/ {cpu} rw - cgroup cgroup rw,cpu,cpuacct",
        f"/ {tmp_path / 'pids'} rw - cgroup cgroup rw,pids",
    )
    assert {(one.folder, *one.controllers) for one in usable_hierarchies(at) or ()} == {
        (memory / "job", "memory"),
        (cpu, "cpu"),
        (tmp_path / "pids", "pids"),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_groups_that_may_not_be_made_are_no_use(tmp_path):
    root = write(tmp_path / "fs", cgroup__subtree_control="cpu memory pids")
    root.chmod(0o500)
    assert usable_hierarchies(proc(tmp_path, "0::/\n", f"/ {root} rw - cgroup2 cgroup2 rw")) is None


def test_version_2_limits(tmp_path):
    at = (Hierarchy(2, tmp_path, CONTROLLERS),)
    spec = ComputerSpec(memory_mb=100, disk_mb=28, cpus=0.5, processes=10)
    with sandbox_limits.control_group(at, spec) as group:
        (folder,) = group
        assert {file.name: file.read_text() for file in folder.iterdir()} == {
            "memory.max": str(128 << 20),
            "cpu.max": "50000 100000",
            "pids.max": "14",
        }
        write(folder, memory__events="low 0\noom 2\noom_kill 1\n", pids__events="max 7\n")
        exceeded = [sandbox_limits.times_exceeded(group, one) for one in ("memory", "processes")]
        assert exceeded == [1, 7]


def test_a_limit_that_cannot_be_set_is_refused(tmp_path):
    (tmp_path / "fs").write_text("no folder")
    with (
        pytest.raises(ComputerUnavailable, match="limit cannot be set"),
        sandbox_limits.control_group((Hierarchy(2, tmp_path / "fs", CONTROLLERS),), SPEC),
    ):
        raise AssertionError


HEADERS = {
    0: [
        Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        Path("/usr/include/asm/unistd_64.h"),
    ],
    1: [Path("/usr/include/asm-generic/unistd.h")],
}
OTHERS = sandbox_limits.JUDGED


@pytest.mark.parametrize("column", HEADERS)
def test_the_numbers_are_those_of_the_kernel(column):
    header = next((file for file in HEADERS[column] if file.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"#define __NR3?2?6?4?_?(?:264_)?(\w+)\s+(\d+)", header.read_text())
    kernel = {name: int(number) for name, number in found}
    ours = sandbox_limits.REFUSED | sandbox_limits.REFUSED_UNCOUNTED | OTHERS
    known = {name: numbers[column] for name, numbers in ours.items() if name in kernel}
    assert len(known) > 30
    assert known == {name: kernel[name] for name in known}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("counted", [True, False])
def test_every_jump_of_the_filter_stays_in_it(machine, *, counted):
    steps = _steps(sandbox_limits.seccomp_filter(machine, counted=counted))
    assert len(steps) < 4096  # what the kernel takes
    for at, (code, when, otherwise, _) in enumerate(steps):
        if code & 7 == 5:
            assert at + 1 + max(when, otherwise) < len(steps)
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)


@pytest.mark.parametrize(
    ("call", "arguments", "result"),
    [
        ("read", (0,), "allow"),
        ("mount", (0,), 1),
        ("unshare", (0,), 1),
        ("clone", (0x11,), "allow"),
        ("clone", (0x10000011,), 1),
        ("clone3", (0,), 38),
        ("ioctl", (0, 0x5401), "allow"),
        ("ioctl", (0, 0x5412), 1),
        ("socket", (1,), "allow"),
        ("socket", (2,), "allow"),
        ("socket", (10,), "allow"),
        ("socket", (40,), 97),
        ("socketpair", (1,), "allow"),
        ("socketpair", (38,), 97),
    ],
)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides(machine, call, arguments, result):
    column = ("x86_64", "aarch64").index(machine)
    numbers = {"read": (0, 63)} | OTHERS | sandbox_limits.REFUSED
    program = _steps(sandbox_limits.seccomp_filter(machine, counted=True))
    audit = (0xC000003E, 0xC00000B7)[column]
    assert _decide(program, audit, numbers[call][column], arguments) == result


def test_other_interfaces_are_refused():
    program = _steps(sandbox_limits.seccomp_filter("x86_64", counted=True))
    assert _decide(program, 0x40000003, 0, ()) == 38  # 32-bit programs
    assert _decide(program, 0xC000003E, 0x40000000, ()) == 38  # x32
    with pytest.raises(ComputerUnavailable, match="riscv64"):
        sandbox_limits.seccomp_filter("riscv64", counted=True)


Step = tuple[int, int, int, int]


def _steps(program: bytes) -> list[Step]:
    return list(struct.iter_unpack("=HBBI", program))


def _decide(program: list[Step], audit: int, number: int, arguments: tuple[int, ...]) -> object:
    """Run the program as the kernel would."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    value, at = 0, 0
    while True:
        code, when, otherwise, operand = program[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == 0x06:
            return "allow" if operand == 0x7FFF0000 else operand & 0xFFFF
        else:
            holds = {0x15: value == operand, 0x45: bool(value & operand), 0x35: value >= operand}
            at += when if holds[code] else otherwise

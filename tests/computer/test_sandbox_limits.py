import re
import struct
from pathlib import Path

import pytest

from skillopt_ci.computer import sandbox_limits
from skillopt_ci.errors import ComputerUnavailable

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


def test_a_machine_that_is_not_known_is_refused():
    with pytest.raises(ComputerUnavailable, match="riscv64"):
        sandbox_limits.seccomp_filter("riscv64", counted=True)


Step = tuple[int, int, int, int]


def _steps(program: bytes) -> list[Step]:
    return list(struct.iter_unpack("=HBBI", program))


def _decide(program: list[Step], audit: int, number: int, arguments: tuple[int, ...]) -> object:
    """Run the program as the kernel would."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, audit, 0, *padded)
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

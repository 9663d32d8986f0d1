"""A look from inside, before anything relies on it: what must work does, what must not does not."""

import tempfile
from pathlib import Path

from skillopt_ci.computer.computer import Computer, Computers, ComputerSpec
from skillopt_ci.errors import ComputerUnavailable

_SPEC = ComputerSpec(memory_mb=256, processes=32, disk_mb=32)
_CONTENT = b"probe"
#: The loopback of the computer itself, and tunnels that lead nowhere, which the kernel makes in
#: every new network namespace.
_HARMLESS = frozenset(
    {
        *("lo", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0"),
        "ip6gre0",
    }
)


async def probe(computers: Computers) -> None:
    """Open a computer without network and look out.

    Raises ComputerUnavailable for a hole, ComputerFailure if no computer can be opened.
    """
    with tempfile.NamedTemporaryFile(prefix="skillopt-ci-probe-") as outside:
        outside.write(_CONTENT)
        outside.flush()
        Path(outside.name).chmod(0o644)
        async with computers.open(_SPEC) as computer:
            complaint = await _complaint(computer, outside.name)
            if complaint:
                raise ComputerUnavailable(
                    f"The computer does not do what it promises: {complaint}.",
                    hint="Choose another `rollout.computer.type` on this machine.",
                )


async def _complaint(computer: Computer, outside: str) -> str:
    await computer.write("probe", _CONTENT)
    done = await computer.run(["cat", "probe"], timeout=30)
    if done.stdout.encode() != _CONTENT:
        return f"a file could not be used {done.stderr}"
    done = await computer.run(["cat", outside], timeout=30)
    if not done.exit_code:
        return f"{outside} can be read from inside"
    # the table of network devices needs no program of the image but `cat`
    done = await computer.run(["cat", "/proc/net/dev"], timeout=30)
    devices = [line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]]
    if "lo" not in devices and done.exit_code:
        return "its network devices cannot be seen"
    others = ", ".join(name for name in devices if name not in _HARMLESS)
    return f"the network device {others} is inside" if others else ""

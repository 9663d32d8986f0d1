"""The kind `sandbox`: confined by the Linux kernel on this machine, without an engine."""

import asyncio
import platform
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass

from skillopt_ci.computer.computer import Computer, ComputerSpec
from skillopt_ci.computer.errors import ComputerFailure, ComputerUnavailable
from skillopt_ci.computer.probe import probe
from skillopt_ci.computer.sandbox.command import SandboxShell
from skillopt_ci.computer.sandbox.control_group import (
    Hierarchy,
    control_group,
    sweep,
    usable_hierarchies,
)
from skillopt_ci.computer.sandbox.holder import holder
from skillopt_ci.computer.sandbox.programs import find_programs
from skillopt_ci.computer.sandbox.rights import own_rights
from skillopt_ci.computer.sandbox.seccomp import seccomp_filter
from skillopt_ci.computer.shell_computer import ShellComputer

#: The first Linux that counts the processes of a user for each user namespace.
_COUNTING_KERNEL = (5, 14)
_ADVICE = (
    "It needs bubblewrap 0.8 or newer, and user namespaces, which containers mostly forbid. On"
    " Ubuntu 24.04 and later: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0."
    " Otherwise set `rollout.computer.type` to docker, or to unconfined if you trust what is run."
)


def _hierarchies() -> tuple[Hierarchy, ...] | None:
    return usable_hierarchies()


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """Computers made with bubblewrap.

    Where control groups can be made they limit a computer as a whole; elsewhere each of its
    processes is limited. ``hierarchies`` says where.
    """

    search_path: str
    hierarchies: Callable[[], tuple[Hierarchy, ...] | None] = _hierarchies
    name: str = "sandbox"

    @property
    def caveat(self) -> str:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        if self.hierarchies() is not None:
            return ""
        return (
            "Memory was limited for each process by itself, processors were limited to a whole"
            " number: this system does not let us make control groups."
        )

    def check(self) -> None:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        find_programs(self.search_path)
        seccomp_filter(platform.machine(), counted=True)
        hierarchies = self.hierarchies()
        sweep(hierarchies or ())
        if hierarchies is None and _kernel() < _COUNTING_KERNEL:
            raise ComputerUnavailable(
                "This Linux cannot limit the number of processes in a sandbox without root.",
                hint="Linux 5.14 can. Or run as root, or set `rollout.computer.type: docker`.",
            )
        try:
            asyncio.run(probe(self))
        except ComputerFailure as error:
            raise ComputerUnavailable(error.message, hint=_ADVICE) from error

    def open(self, spec: ComputerSpec) -> AbstractAsyncContextManager[Computer]:
        """See :class:`skillopt_ci.computer.computer.Computers`."""
        return self._opened(spec)

    @asynccontextmanager
    async def _opened(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        _refuse_missing(spec)
        programs, rights = find_programs(self.search_path), own_rights()
        hierarchies = self.hierarchies()
        with ExitStack() as limits:
            group = hierarchies and limits.enter_context(control_group(hierarchies, spec))
            async with holder(
                programs, rights, disk_mb=spec.disk_mb, readable=spec.readable
            ) as held:
                yield ShellComputer(SandboxShell(spec, programs, rights, held, group or None))


def _refuse_missing(spec: ComputerSpec) -> None:
    missing = [str(path) for path in spec.readable if not path.exists()]
    if missing:
        raise ComputerUnavailable(
            f"`rollout.computer.readable` names {', '.join(missing)}, which does not exist."
        )


def _kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))

"""What a sandboxed program may not ask of the kernel, as a program for the kernel's filter.

The namespaces are what confines; this takes away what they do not cover (the kernel's keyrings,
sockets to the hypervisor, ways to make further namespaces) and parts of the kernel that an agent
has no use for. The language is described in Linux' Documentation/networking/filter.rst, the input
(`struct seccomp_data`) in seccomp(2).
"""

import errno
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from skillopt_ci.computer.errors import ComputerUnavailable

#: Numbers of refused calls: x86-64's table, and the generic one that AArch64 uses.
REFUSED = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
}
#: Refused as well where no control group counts: ways around limits that hold per process.
REFUSED_UNCOUNTED = {
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "sched_setaffinity": (203, 122),
}
_CLONE, _CLONE3, _SOCKET, _SOCKETPAIR, _IOCTL = (
    (56, 220),
    (435, 435),
    (41, 198),
    (53, 199),
    (16, 29),
)
_CLONE_NEWUSER = 0x1000_0000
#: Would type into the terminal of the host: TIOCSTI, TIOCLINUX.
_TYPING = (0x5412, 0x541C)
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF_0000, 0x0005_0000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    audit: int


_MACHINES = {"x86_64": _Machine(0, 0xC000_003E), "aarch64": _Machine(1, 0xC000_00B7)}


def seccomp_filter(machine: str, *, counted: bool) -> bytes:
    """Return the filter for a machine as `uname -m` names it.

    ``counted``: a control group limits the computer as a whole. Raises ComputerUnavailable for a
    machine whose numbers are not known.
    """
    if machine not in _MACHINES:
        raise ComputerUnavailable(
            f"`rollout.computer.type: sandbox` knows x86_64 and aarch64, this is {machine}.",
            hint="Use `type: docker`.",
        )
    known = _MACHINES[machine]
    refused = REFUSED if counted else REFUSED | REFUSED_UNCOUNTED
    steps = [
        *_unless_machine(known.audit),
        # Numbers of the x32 interface, which would go past the comparisons below.
        *_when(_AT_LEAST, 0x4000_0000, _refusal(errno.ENOSYS)),
        # Its flags are behind a pointer. A C library takes the older call when there is no such.
        *_when(_EQUAL, _CLONE3[known.column], _refusal(errno.ENOSYS)),
        *(
            step
            for numbers in refused.values()
            for step in _when(_EQUAL, numbers[known.column], _refusal(errno.EPERM))
        ),
        *_argument(_CLONE[known.column], 0, _when(_ANY_BIT, _CLONE_NEWUSER, _refusal(errno.EPERM))),
        *_argument(
            _IOCTL[known.column],
            1,
            [step for code in _TYPING for step in _when(_EQUAL, code, _refusal(errno.EPERM))],
        ),
        *_families(_SOCKET[known.column]),
        *_families(_SOCKETPAIR[known.column]),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, operand: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, operand)


def _refusal(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _when(comparison: int, operand: int, action: bytes) -> list[bytes]:
    return [_step(comparison, operand, 0, 1), action]


def _unless_machine(audit: int) -> list[bytes]:
    """Refuse what 32-bit programs ask; then look at the call's number."""
    return [
        _step(_LOAD, _MACHINE),
        _step(_EQUAL, audit, 1, 0),
        _refusal(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
    ]


def _argument(number: int, index: int, steps: Iterable[bytes]) -> list[bytes]:
    """Look at an argument (its lower half) of one call; afterwards at the number again."""
    body = [_step(_LOAD, _ARGUMENTS + 8 * index), *steps, _step(_LOAD, _NUMBER)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _families(number: int) -> list[bytes]:
    """Allow sockets of the families that namespaces confine."""
    allowed = [_step(_EQUAL, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)]
    return _argument(number, 0, [*allowed, _refusal(errno.EAFNOSUPPORT)])

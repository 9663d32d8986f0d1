"""What a container is made with. Nothing that was asked for is left out."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from skillopt_ci.computer import owner
from skillopt_ci.computer.computer import HOME, WORKDIR, ComputerSpec, Network
from skillopt_ci.computer.docker.engine import Engine

#: On every container of ours: the process it belongs to.
LABEL = "skillopt-ci.owner"

#: Does nothing but take note of the end of processes whose parents have ended before. It is the
#: container's root, who has one right left: to kill what the agent, a user without any, has begun.
_WAIT = ("/bin/sh", "-c", "while :; do sleep 2147483647 & wait; done")
_ROOT = "0:0"
#: Users that few systems give to anybody, and that engines with mapped users know as well.
_FIRST_AGENT, _AGENTS = 20_000, 40_000
#: Processes of the engine's own that start a command, also while the agent's use up theirs.
_MACHINERY = 64
#: Home and temporary files get this part of the disk each, beside the workspace.
_SHARE = 4
_FILES_PER_MB = 128
_MB = 1024**2


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs: its identity, and the user that commands run as."""

    id: str
    agent: int


@asynccontextmanager
async def container(engine: Engine, image: str, spec: ComputerSpec) -> AsyncIterator[Container]:
    """Start a container, and remove it at the end. Raises ComputerFailure."""
    agent = _FIRST_AGENT + secrets.randbelow(_AGENTS)
    name = f"skillopt-ci-{secrets.token_hex(8)}"
    try:
        made = await engine.call(
            engine.api.create_container,
            image,
            name=name,
            entrypoint=list(_WAIT),
            user=_ROOT,
            working_dir="/",
            hostname="computer",
            environment=_environment(spec),
            labels={LABEL: str(owner.this_process())},
            host_config=engine.api.create_host_config(**_host_options(spec, agent)),
        )
        await engine.call(engine.api.start, made["Id"])
        yield Container(made["Id"], agent)
    finally:
        # By name: on cancellation the engine may have made it without our hearing of it.
        await _remove(engine, name)


async def _remove(engine: Engine, name: str) -> None:
    from docker.errors import NotFound  # noqa: PLC0415

    def remove() -> None:
        try:
            engine.api.remove_container(name, force=True, v=True)
        except NotFound:
            return

    await engine.call(remove)


def _environment(spec: ComputerSpec) -> dict[str, str]:
    basic = {"HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
    return {**basic, **spec.environ}


def _host_options(spec: ComputerSpec, agent: int) -> dict[str, Any]:
    from docker.types import Mount, Ulimit  # noqa: PLC0415

    spare = max(1, spec.disk_mb // _SHARE)
    memory = (spec.memory_mb + spec.disk_mb + 2 * spare) * _MB  # files are in memory
    return {
        "network_mode": "none" if spec.network is Network.NONE else "bridge",
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(spec.cpus * 1e9),
        "pids_limit": spec.processes + _MACHINERY,
        "ulimits": [
            Ulimit(name="nproc", soft=spec.processes, hard=spec.processes),
            Ulimit(name="core", soft=0, hard=0),
        ],
        "read_only": True,
        "tmpfs": {
            WORKDIR: _tmpfs(spec.disk_mb, agent),
            HOME: _tmpfs(spare, agent),
            "/tmp": _tmpfs(spare, agent),  # noqa: S108
        },
        "shm_size": spare * _MB,
        "cap_drop": ["ALL"],
        "cap_add": ["KILL"],
        "security_opt": ["no-new-privileges:true"],
        "ipc_mode": "private",
        "mounts": [Mount(str(path), str(path), "bind", read_only=True) for path in spec.readable],
        "log_config": {"type": "none", "config": {}},
    }


def _tmpfs(size_mb: int, agent: int) -> str:
    files = max(4096, size_mb * _FILES_PER_MB)
    return (
        f"rw,exec,nosuid,nodev,size={size_mb}m,nr_inodes={files},mode=0755,uid={agent},gid={agent}"
    )

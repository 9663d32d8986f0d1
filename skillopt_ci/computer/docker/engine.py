"""The Docker engine: reached through its SDK, which is only imported when it is used."""

import asyncio
import functools
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from skillopt_ci.aio import undisturbed
from skillopt_ci.computer.errors import ComputerFailure, ComputerUnavailable

if TYPE_CHECKING:
    from docker import APIClient

Result = TypeVar("Result")

#: Calls to the engine at the same time, each of them short, and seconds that one may take.
_THREADS, _PATIENCE = 16, 120
#: What the engine must be able to limit, in its own words.
_LIMITS = {"MemoryLimit": "memory", "CpuCfsQuota": "processors", "PidsLimit": "processes"}


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers."""

    api: "APIClient"
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="docker")
    )

    def close(self) -> None:
        """Let go of the engine."""
        self.threads.shutdown(wait=False)
        self.api.close()

    async def call(self, method: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Make a call in a thread. Raises ComputerFailure.

        A call that was begun is always waited for: nobody may clean up before it has had effect.
        """
        work = functools.partial(attempt, method, *args, **options)
        return await undisturbed(asyncio.get_running_loop().run_in_executor(self.threads, work))


def connect(environ: Mapping[str, str]) -> Engine:
    """Reach the engine that ``DOCKER_HOST`` names, or the usual one.

    Raises ComputerUnavailable if the SDK is missing, no engine answers, or the engine cannot limit.
    """
    try:
        import docker  # noqa: PLC0415  (an extra)
        from docker.errors import DockerException  # noqa: PLC0415
    except ImportError:
        raise ComputerUnavailable(
            "`rollout.computer.type: docker` needs Docker's SDK, which is not installed.",
            hint="Install it: pip install 'skillopt-ci[docker]'",
        ) from None
    host = environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not host.startswith(("unix://", "tcp://")) or environ.get("DOCKER_TLS_VERIFY"):
        raise ComputerUnavailable(
            f"`rollout.computer.type: docker` cannot use the engine at {host}.",
            hint="DOCKER_HOST must begin with unix:// or tcp://, without TLS.",
        )
    try:
        _knock(host)
        engine = Engine(docker.APIClient(base_url=host, version="auto", timeout=_PATIENCE))
    except (DockerException, OSError) as error:
        raise ComputerUnavailable(
            f"No Docker engine answers at {host}: {error}.",
            hint="Start it, set DOCKER_HOST, or choose another `rollout.computer.type`.",
        ) from error
    try:
        _refuse_what_cannot_limit(attempt(engine.api.info))
    except (ComputerUnavailable, ComputerFailure):
        engine.close()
        raise
    return engine


def _knock(host: str) -> None:
    """Find out with an error that says it whether somebody listens; the SDK leaves sockets open."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(host.removeprefix("unix://"))


def attempt(method: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Make a call. Raises ComputerFailure."""
    from docker.errors import DockerException  # noqa: PLC0415

    try:
        return method(*args, **options)
    except (DockerException, OSError) as error:
        raise ComputerFailure(f"The Docker engine failed: {error}.") from error


def _refuse_what_cannot_limit(facts: Mapping[str, object]) -> None:
    missing = [name for key, name in _LIMITS.items() if not facts.get(key)]
    if facts.get("OSType") != "linux" or missing:
        reason = f"cannot limit {', '.join(missing)}" if missing else "does not run Linux"
        raise ComputerUnavailable(
            f"The Docker engine {reason}, so that a computer would not be confined.",
            hint="A rootless engine needs control groups of version 2, delegated by systemd.",
        )

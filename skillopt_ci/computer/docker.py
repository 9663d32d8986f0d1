"""Computers that are containers of a Docker engine.

The engine is reached through its SDK, an extra that is imported only when it is used.
"""

import asyncio
import contextlib
import functools
import secrets
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from skillopt_ci.aio import shielded
from skillopt_ci.computer.computer import (
    HOME,
    WORKDIR,
    Command,
    Computer,
    ComputerSpec,
    Network,
    probe,
)
from skillopt_ci.computer.process import Capture, CommandResult, parse_identity, this_process
from skillopt_ci.errors import ComputerFailure, ComputerUnavailable

if TYPE_CHECKING:
    from docker import APIClient

Result = TypeVar("Result")

#: Calls to the engine at the same time, each of them short, and seconds that one may take.
_THREADS, _ENGINE_PATIENCE = 16, 120
#: What the engine must be able to limit, in its own words.
_LIMITS = {"MemoryLimit": "memory", "CpuCfsQuota": "processors", "PidsLimit": "processes"}

#: On every container of ours: the process it belongs to.
LABEL = "skillopt-ci.owner"
#: The answers for a container that somebody else has removed, or is removing.
_REMOVED = {404, 409}

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

#: Frames of a command's output: the stream's number and the length of what follows.
_HEADER = struct.Struct(">BxxxL")
#: Waits for a line, before which nobody listens to its output; runs the words; and kills all other
#: processes of the agent, so that nothing works on in the background.
_SCRIPT = """\
IFS= read -r line
cd -- "$1" || exit 126
shift
"$@"
code=$?
kill -9 -1 2> /dev/null
exit "$code"
"""
#: Kills whatever the agent runs. As root, whom no agent can kill first, and whose processes do not
#: count among the agent's. The first process of a container is never killed like this.
_KILL = "IFS= read -r line; kill -9 -1; echo done"
_KILLED = 137
#: How often memory ran out, as either version of control groups tells it inside, and how many
#: blocks and files are left.
_COUNT = (
    "IFS= read -r line; cd /sys/fs/cgroup"
    " && cat memory.events memory/memory.oom_control 2> /dev/null"
    f"; stat -f -c 'free %a %d' {WORKDIR} {HOME} /tmp"
)
_COMMAND_PATIENCE, _REPORT_BYTES = 60.0, 10_000


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers."""

    api: "APIClient"
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="docker")
    )

    def close(self) -> None:
        self.threads.shutdown(wait=False)
        self.api.close()

    async def call(self, method: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Make a call in a thread. Raises ComputerFailure.

        A call that was begun is always waited for: nobody may clean up before it has had effect.
        """
        work = functools.partial(call_engine, method, *args, **options)
        return await shielded(asyncio.get_running_loop().run_in_executor(self.threads, work))

    def remove(self, container: str) -> None:
        """Remove a container, unless somebody else was quicker. Raises ComputerFailure."""
        from docker.errors import APIError  # noqa: PLC0415

        try:
            call_engine(self.api.remove_container, container, force=True, v=True)
        except ComputerFailure as failure:
            error = failure.__cause__
            if not isinstance(error, APIError) or error.status_code not in _REMOVED:
                raise

    def sweep(self) -> None:
        """Remove what belongs to processes of this machine that were killed before they could.

        Containers of live runs, and of other machines on the same engine, are left alone. Raises
        ComputerFailure.
        """
        for one in call_engine(self.api.containers, all=True, filters={"label": LABEL}):
            owner = parse_identity(one["Labels"].get(LABEL, ""))
            if owner is not None and owner.is_gone:
                self.remove(one["Id"])


def connect(environ: Mapping[str, str]) -> Engine:
    """Reach the engine that ``DOCKER_HOST`` names, or the usual one.

    Raises ComputerUnavailable if the SDK is missing, no engine answers, or the engine cannot limit.
    """
    try:
        import docker  # noqa: PLC0415
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
        if host.startswith("unix://"):
            # The SDK would leave a socket open, with an error that says less.
            with socket.socket(socket.AF_UNIX) as door:
                door.connect(host.removeprefix("unix://"))
        engine = Engine(docker.APIClient(base_url=host, version="auto", timeout=_ENGINE_PATIENCE))
    except (DockerException, OSError) as error:
        raise ComputerUnavailable(
            f"No Docker engine answers at {host}: {error}.",
            hint="Start it, set DOCKER_HOST, or choose another `rollout.computer.type`.",
        ) from error
    try:
        facts = call_engine(engine.api.info)
    except ComputerFailure:
        engine.close()
        raise
    missing = [name for key, name in _LIMITS.items() if not facts.get(key)]
    if facts.get("OSType") != "linux" or missing:
        engine.close()
        reason = f"cannot limit {', '.join(missing)}" if missing else "does not run Linux"
        raise ComputerUnavailable(
            f"The Docker engine {reason}, so that a computer would not be confined.",
            hint="A rootless engine needs control groups of version 2, delegated by systemd.",
        )
    return engine


def call_engine(method: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Make a call. Raises ComputerFailure."""
    from docker.errors import DockerException  # noqa: PLC0415

    try:
        return method(*args, **options)
    except (DockerException, OSError) as error:
        raise ComputerFailure(f"The Docker engine failed: {error}.") from error


@dataclass(frozen=True, slots=True)
class Containers:
    """Computers that are containers; ``image`` is used where a task names none."""

    environ: Mapping[str, str]
    image: str = ""
    name: str = "docker"
    caveat: str = ""

    def check(self) -> None:
        engine = connect(self.environ)
        try:
            engine.sweep()
            if self.image:
                asyncio.run(probe(self))
        except ComputerFailure as error:
            raise ComputerUnavailable(error.message) from error
        finally:
            engine.close()

    @asynccontextmanager
    async def open(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        image = spec.image or self.image
        if not image:
            raise ComputerUnavailable(
                "`rollout.computer.type: docker` needs an image.",
                hint="Set `rollout.computer.image`.",
            )
        agent = _FIRST_AGENT + secrets.randbelow(_AGENTS)
        name = f"skillopt-ci-{secrets.token_hex(8)}"
        engine = await asyncio.to_thread(connect, self.environ)
        try:
            await _provide(engine, image)
            try:
                made = await engine.call(
                    engine.api.create_container,
                    image,
                    name=name,
                    entrypoint=list(_WAIT),
                    user=_ROOT,
                    working_dir="/",
                    hostname="computer",
                    environment={
                        "HOME": HOME,
                        "USER": "agent",
                        "LANG": "C.UTF-8",
                        "TMPDIR": "/tmp",  # noqa: S108
                        **spec.environ,
                    },
                    labels={LABEL: str(this_process())},
                    host_config=engine.api.create_host_config(**_host_options(spec, agent)),
                )
                await engine.call(engine.api.start, made["Id"])
                yield Computer(ContainerShell(engine, made["Id"], f"{agent}:{agent}"))
            finally:
                # By name: on cancellation the engine may have made it without our hearing of it.
                await engine.call(engine.remove, name)
        finally:
            engine.close()


async def _provide(engine: Engine, image: str) -> None:
    """Pull an image that the engine does not have."""
    from docker.errors import APIError, ImageNotFound  # noqa: PLC0415

    def provide() -> None:
        try:
            engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            repository, _, tag = image.rpartition(":")
            plain = "/" in tag or not repository
            engine.api.pull(
                image if plain or "@" in image else repository,
                tag=None if "@" in image else "latest" if plain else tag,
            )

    try:
        await engine.call(provide)
    except ComputerFailure as error:
        if isinstance(error.__cause__, APIError) and error.__cause__.is_client_error():
            raise ComputerUnavailable(
                f"Could not pull image {image}: {error.__cause__.explanation}",
                hint="Set `rollout.computer.image` to an image that the engine has or can pull.",
            ) from error
        raise


def _host_options(spec: ComputerSpec, agent: int) -> dict[str, Any]:
    """What a container is made with. Nothing that was asked for is left out."""
    from docker.types import Mount, Ulimit  # noqa: PLC0415

    def tmpfs(size_mb: int) -> str:
        files = max(4096, size_mb * _FILES_PER_MB)
        owner = f"uid={agent},gid={agent}"
        return f"rw,exec,nosuid,nodev,size={size_mb}m,nr_inodes={files},mode=0755,{owner}"

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
        "tmpfs": {WORKDIR: tmpfs(spec.disk_mb), HOME: tmpfs(spare), "/tmp": tmpfs(spare)},  # noqa: S108
        "shm_size": spare * _MB,
        "cap_drop": ["ALL"],
        "cap_add": ["KILL"],
        "security_opt": ["no-new-privileges:true"],
        "ipc_mode": "private",
        "mounts": [Mount(str(path), str(path), "bind", read_only=True) for path in spec.readable],
        "log_config": {"type": "none", "config": {}},
    }


@dataclass(slots=True)
class ContainerShell:
    """Runs the commands of one container as the user ``agent``.

    One at a time, since the end of a command is the end of every process of the agent.
    """

    engine: Engine
    container: str
    agent: str
    clock: Callable[[], float] = time.monotonic
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _memory_ran_out: int = 0

    async def __call__(self, command: Command) -> CommandResult:
        async with self._turn:
            done = await self._run(command)
            return done if done.exit_code == 0 else replace(done, limit=await self._limit_reached())

    async def _run(self, command: Command) -> CommandResult:
        begin = self.clock()
        outputs = {1: Capture(command.output_bytes), 2: Capture(command.output_bytes)}
        code, timed_out = _KILLED, False
        try:
            async with asyncio.timeout(command.timeout):
                code = await self._execute(
                    (_SCRIPT, command.cwd, *command.arguments),
                    command.stdin,
                    outputs,
                    user=self.agent,
                    environment=dict(command.environ),
                )
        except TimeoutError:
            timed_out = True
        finally:
            if code == _KILLED:
                # Time is up, we are cancelled, or the shell that kills the rest was killed.
                await shielded(self._kill_all())
        seconds = round(self.clock() - begin, 3)
        return CommandResult(code, outputs[1], outputs[2], timed_out, seconds=seconds)

    async def _kill_all(self) -> None:
        if (await self._report(_KILL, _ROOT)).strip() != "done":
            raise ComputerFailure("The processes of a container could not be killed.")

    async def _limit_reached(self) -> str:
        lines = [line.split() for line in (await self._report(_COUNT, self.agent)).splitlines()]
        count = sum(int(words[1]) for words in lines if words[:1] == ["oom_kill"])
        ran_out, self._memory_ran_out = count > self._memory_ran_out, count
        full = any(words[:1] == ["free"] and "0" in words for words in lines)
        return "memory" if ran_out else "disk" if full else ""

    async def _report(self, script: str, user: str) -> str:
        """Run a script of our own, whose output is short."""
        outputs = {1: Capture(_REPORT_BYTES), 2: Capture(_REPORT_BYTES)}
        try:
            async with asyncio.timeout(_COMMAND_PATIENCE):
                await self._execute((script,), b"", outputs, user=user)
        except TimeoutError:
            raise ComputerFailure(
                f"A container did not answer in {_COMMAND_PATIENCE:g} s."
            ) from None
        return outputs[1].text()

    async def _execute(
        self,
        script: tuple[str, ...],
        stdin: bytes,
        outputs: Mapping[int, Capture],
        **options: Any,
    ) -> int:
        """Run a script that begins with reading a line, and return its exit code."""
        api, words = self.engine.api, ["/bin/sh", "-c", script[0], "sh", *script[1:]]
        made = await self.engine.call(api.exec_create, self.container, words, stdin=True, **options)
        opened: list[Any] = []
        try:
            await self.engine.call(lambda: opened.append(api.exec_start(made["Id"], socket=True)))
            await converse(opened[0]._sock, b"\n" + stdin, outputs)
        except ConnectionError as error:
            raise ComputerFailure(f"The Docker engine broke off: {error}.") from error
        finally:
            for stream in opened:
                connection = stream._sock
                stream._response.close()
                stream.close()
                connection.close()
        code = (await self.engine.call(api.exec_inspect, made["Id"]))["ExitCode"]
        return _KILLED if code is None else int(code)


async def converse(connection: socket.socket, stdin: bytes, outputs: Mapping[int, Capture]) -> None:
    """Send ``stdin``, and sort what comes into ``outputs`` (1 and 2) until nothing more does."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)

    async def send() -> None:
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(connection, stdin)
            connection.shutdown(socket.SHUT_WR)

    sending = asyncio.create_task(send())
    header, stream, left = b"", 0, 0
    try:
        while chunk := await loop.sock_recv(connection, 65_536):
            while chunk:
                if left == 0:
                    missing = _HEADER.size - len(header)
                    header, chunk = header + chunk[:missing], chunk[missing:]
                    if len(header) == _HEADER.size:
                        (stream, left), header = _HEADER.unpack(header), b""
                else:
                    part, chunk = chunk[:left], chunk[left:]
                    left -= len(part)
                    if stream in outputs:
                        outputs[stream].feed(part)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

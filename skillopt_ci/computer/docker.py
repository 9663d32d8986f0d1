"""Computers that are Docker containers, controlled through the program `docker`."""

import asyncio
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillopt_ci.aio import off_the_clock, shielded
from skillopt_ci.computer.computer import HOME, WORKDIR, Command, Computer, ComputerSpec, probe
from skillopt_ci.confinement import public_environ
from skillopt_ci.errors import ComputerFailure, ComputerUnavailable
from skillopt_ci.liveness import is_gone, this_process
from skillopt_ci.program import CommandResult, execute

#: Timeouts in seconds for the engine: to answer, and to pull an image.
_PATIENCE, _PULL_PATIENCE = 120.0, 3600.0
#: Limits that the engine must support, by its names.
_LIMITS = {"MemoryLimit": "memory", "CpuCfsQuota": "processors", "PidsLimit": "processes"}

#: The label on every container of ours, with the process that owns it.
LABEL = "skillopt-ci.owner"
#: The engine's errors for a container that is already removed or being removed.
_REMOVED = re.compile(r"no such container|already in progress", re.IGNORECASE)
#: Errors of registries for images that are missing, not accessible or for other processors.
_NO_IMAGE = re.compile(
    "not found|not exist|denied|unauthorized|manifest unknown|invalid reference|"
    "no basic auth credentials|no matching manifest",
    re.IGNORECASE,
)

#: The container's first process: it reaps orphans. It runs as the container's root, whose only
#: remaining right is to kill the processes of the agent, a user without rights.
_WAIT = ("-c", "while :; do sleep 2147483647 & wait; done")
_ROOT = "0:0"
#: User ids that few systems assign, and that engines with user mappings support.
_FIRST_AGENT, _AGENTS = 20_000, 40_000
_BASIC = {"HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
#: Extra processes, so that the engine can start commands when the agent has used up its own.
_MACHINERY = 64
#: Home and temporary files get the disk's size divided by this, each in addition to the workspace.
_SHARE = 4
_FILES_PER_MB = 128

#: Runs the words, then kills all other processes of the agent, so nothing stays in the background.
#: Then it reads what input is left: if a command ends before its input does, `docker` may fail.
_SCRIPT = """\
cd -- "$1" || exit 126
shift
"$@"
code=$?
kill -9 -1 2> /dev/null
PATH=$PATH:/usr/bin:/bin cat > /dev/null 2>&1
exit "$code"
"""
#: Kills all of the agent's processes. Runs as root, which the agent cannot kill first and whose
#: processes do not count as the agent's. The container's first process survives.
_KILL = "kill -9 -1; echo done"
_KILLED = 137
#: How often memory ran out (control groups 1 or 2), and how many blocks and files are left.
_COUNT = (
    "cd /sys/fs/cgroup && cat memory.events memory/memory.oom_control 2> /dev/null"
    f"; stat -f -c 'free %a %d' {WORKDIR} {HOME} /tmp; :"
)


@dataclass(frozen=True, slots=True)
class Engine:
    environ: Mapping[str, str]

    async def run(
        self,
        *words: str,
        stdin: bytes = b"",
        variables: Mapping[str, str] = {},
        timeout: float = _PATIENCE,
        output_bytes: int = 1_000_000,
    ) -> CommandResult:
        """Run ``docker`` with ``words``, which may name ``variables`` to pass on."""
        return await execute(
            ("docker", *words),
            stdin=stdin,
            environ={**await asyncio.to_thread(public_environ, self.environ), **variables},
            cwd=Path("/"),
            timeout=timeout,
            output_bytes=output_bytes,
        )

    async def call(
        self, *words: str, variables: Mapping[str, str] = {}, timeout: float = _PATIENCE
    ) -> str:
        """The output of ``docker``. Raises ComputerFailure."""
        done = await self.run(*words, variables=variables, timeout=timeout)
        if done.exit_code or done.timed_out:
            late = f"no answer within {timeout:g} s"
            said = late if done.timed_out else " ".join(done.stderr.split())
            raise ComputerFailure(f"The Docker engine failed: {said}")
        return done.stdout

    async def check(self) -> None:
        """Raise ComputerUnavailable for lack of `docker` or a limit; else ComputerFailure."""
        if shutil.which("docker", path=self.environ.get("PATH", os.defpath)) is None:
            raise ComputerUnavailable(
                "`rollout.computer.type: docker` needs the program docker, which is not installed.",
                hint="Install it: apt-get install docker-cli. Or choose another type.",
            )
        try:
            facts = json.loads(await self.call("info", "--format", "{{json .}}"))
            fault = "; ".join(facts.get("ServerErrors") or ())
        except (ComputerFailure, ValueError) as error:
            fault = str(error)
        if fault:
            raise ComputerFailure(
                f"No Docker engine answers: {fault}",
                hint="Start it, set DOCKER_HOST, or choose another `rollout.computer.type`.",
            )
        missing = [name for key, name in _LIMITS.items() if not facts.get(key)]
        if facts.get("OSType") != "linux" or missing:
            reason = f"cannot limit {', '.join(missing)}" if missing else "does not run Linux"
            raise ComputerUnavailable(
                f"The Docker engine {reason}, so that a computer would not be confined.",
                hint="A rootless engine needs control groups of version 2, delegated by systemd.",
            )

    async def provide(self, image: str) -> None:
        if (await self.run("image", "inspect", "--format", "{{.Id}}", "--", image)).exit_code == 0:
            return
        try:
            with off_the_clock():
                await self.call("pull", "--quiet", "--", image, timeout=_PULL_PATIENCE)
        except ComputerFailure as error:
            raise (ComputerUnavailable if _NO_IMAGE.search(error.message) else ComputerFailure)(
                f"Could not pull image {image}: {error.message}",
                hint="Set `rollout.computer.image` to an image that the engine has or can pull.",
            ) from error

    async def remove(self, container: str) -> None:
        """Remove a container, which may be gone already. Raises ComputerFailure."""
        try:
            await shielded(self.call("rm", "--force", "--volumes", container))
        except ComputerFailure as failure:
            if not _REMOVED.search(failure.message):
                raise

    async def sweep(self) -> None:
        """Remove containers of dead processes of this machine. Raises ComputerFailure."""
        shown = f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}'
        listed = await self.call("ps", "--all", "--filter", f"label={LABEL}", "--format", shown)
        for line in listed.splitlines():
            container, _, label = line.partition(" ")
            if is_gone(label):
                await self.remove(container)


def _environment(values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Options that name variables, and their values, which process lists then do not show."""
    own = {name for name in values if re.match("(HOME|PATH)$|DOCKER_|LD_", name)}
    words = (f"{name}={value}" if name in own else name for name, value in values.items())
    options = [word for one in words for word in ("--env", one)]
    return options, {name: value for name, value in values.items() if name not in own}


@dataclass(frozen=True, slots=True)
class Containers:
    """Computers that are containers; ``image`` is the default for tasks."""

    environ: Mapping[str, str]
    image: str = ""
    name: str = "docker"
    caveat: str = ""

    def check(self) -> None:
        async def checked() -> None:
            engine = Engine(self.environ)
            await engine.check()
            await engine.sweep()
            if self.image:
                await probe(self)

        try:
            asyncio.run(checked())
        except ComputerFailure as error:
            raise ComputerUnavailable(error.message, hint=error.hint) from error

    @asynccontextmanager
    async def open(self, spec: ComputerSpec) -> AsyncIterator[Computer]:
        if not (image := spec.image or self.image):
            raise ComputerUnavailable(
                "`rollout.computer.type: docker` needs an image.",
                hint="Set `rollout.computer.image`.",
            )
        agent = _FIRST_AGENT + secrets.randbelow(_AGENTS)
        name, engine = f"skillopt-ci-{secrets.token_hex(8)}", Engine(self.environ)
        await engine.check()
        await engine.provide(image)
        options, variables = _environment({**_BASIC, **spec.environ})
        try:
            await shielded(  # even without `docker`, the engine would go on
                engine.call(
                    *("run", "--detach", "--pull", "never", "--name", name),
                    *("--label", f"{LABEL}={this_process()}", "--entrypoint", "/bin/sh"),
                    *("--user", _ROOT, "--workdir", "/", "--hostname", "computer"),
                    *_host_options(spec, agent),
                    *options,
                    *("--", image, *_WAIT),
                    variables=variables,
                )
            )
            yield Computer(ContainerShell(engine, name, f"{agent}:{agent}"))
        finally:
            await engine.remove(name)


def _host_options(spec: ComputerSpec, agent: int) -> list[str]:
    def tmpfs(folder: str, size_mb: int) -> tuple[str, str]:
        files, owner = max(4096, size_mb * _FILES_PER_MB), f"mode=0755,uid={agent},gid={agent}"
        return "--tmpfs", f"{folder}:rw,exec,nosuid,nodev,size={size_mb}m,nr_inodes={files},{owner}"

    spare = max(1, spec.disk_mb // _SHARE)
    memory = f"{spec.memory_mb + spec.disk_mb + 2 * spare}m"  # files are in memory
    lent = (f'type=bind,"source={path}","target={path}",readonly' for path in spec.readable)
    return [
        *("--network", "none" if spec.network == "none" else "bridge"),
        *("--memory", memory, "--memory-swap", memory, "--cpus", f"{spec.cpus:.3f}"),
        *("--pids-limit", str(spec.processes + _MACHINERY)),
        *("--ulimit", f"nproc={spec.processes}:{spec.processes}", "--ulimit", "core=0:0"),
        *("--read-only", *tmpfs(WORKDIR, spec.disk_mb), *tmpfs(HOME, spare)),
        *(*tmpfs("/tmp", spare), "--shm-size", f"{spare}m"),  # noqa: S108
        *("--cap-drop", "ALL", "--cap-add", "KILL", "--security-opt", "no-new-privileges:true"),
        *("--ipc", "private", "--log-driver", "none"),
        *(word for mount in lent for word in ("--mount", mount)),
    ]


@dataclass(slots=True)
class ContainerShell:
    """Runs the agent's commands one at a time, since each ends by killing all its processes."""

    engine: Engine
    container: str
    agent: str
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _memory_ran_out: int = 0

    async def __call__(self, command: Command) -> CommandResult:
        options, variables = _environment(command.environ)
        async with self._turn:
            code = _KILLED
            try:
                done = await self.engine.run(
                    *("exec", "--interactive", "--user", self.agent, *options, self.container),
                    *("/bin/sh", "-c", _SCRIPT, "sh", command.cwd, *command.arguments),
                    stdin=command.stdin,
                    variables=variables,
                    timeout=command.timeout,
                    output_bytes=command.output_bytes,
                )
                code = done.exit_code
            finally:
                # Timed out or cancelled, or the shell that kills the rest was itself killed.
                if code == _KILLED:  # noqa: SIM102 - the next line kills
                    if "done" not in await shielded(self._report(_KILL, _ROOT)):
                        raise ComputerFailure("A container's processes could not be killed.")
            if code == 0:
                return done
            # raises if the container itself has failed
            lines = [line.split() for line in (await self._report(_COUNT, self.agent)).splitlines()]
            count = sum(int(words[1]) for words in lines if words[:1] == ["oom_kill"])
            reached = {
                "memory": count > self._memory_ran_out,
                "disk": any(words[:1] == ["free"] and "0" in words for words in lines),
            }
            self._memory_ran_out = count
            return replace(done, limit=next((name for name in reached if reached[name]), ""))

    async def _report(self, script: str, user: str) -> str:
        return await self.engine.call(
            *("exec", "--user", user, self.container, "/bin/sh", "-c", script)
        )

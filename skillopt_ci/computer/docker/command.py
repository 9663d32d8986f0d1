"""A command in a container, and the end of all that it started."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skillopt_ci.aio import undisturbed
from skillopt_ci.computer.capture import Capture
from skillopt_ci.computer.computer import HOME, WORKDIR
from skillopt_ci.computer.docker.container import Container
from skillopt_ci.computer.docker.conversation import converse
from skillopt_ci.computer.docker.engine import Engine
from skillopt_ci.computer.errors import ComputerFailure
from skillopt_ci.computer.shell_computer import Command, Ended

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
_PATIENCE, _REPORT_BYTES = 60.0, 10_000


@dataclass(slots=True)
class ContainerShell:
    """Runs the commands of one container, one after the other.

    One at a time, since the end of a command is the end of every process of the agent.
    """

    engine: Engine
    container: Container
    clock: Callable[[], float] = time.monotonic
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _memory_ran_out: int = 0

    async def __call__(self, command: Command) -> Ended:
        """Run a command; see :class:`skillopt_ci.computer.shell_computer.Shell`."""
        async with self._turn:
            ended = await self._run(command)
            if ended.exit_code == 0:
                return ended
            limit = await self._limit_reached()
        return Ended(
            ended.exit_code, ended.stdout, ended.stderr, ended.timed_out, limit, ended.seconds
        )

    async def _run(self, command: Command) -> Ended:
        begin = self.clock()
        outputs = {1: Capture(command.output_bytes), 2: Capture(command.output_bytes)}
        code, timed_out = _KILLED, False
        try:
            async with asyncio.timeout(command.timeout):
                code = await self._execute(
                    (_SCRIPT, command.cwd, *command.arguments),
                    command.stdin,
                    outputs,
                    user=self._agent,
                    environment=dict(command.environ),
                )
        except TimeoutError:
            timed_out = True
        finally:
            if code == _KILLED:
                # Time is up, we are cancelled, or the shell that kills the rest was killed.
                await undisturbed(self._kill_all())
        seconds = round(self.clock() - begin, 3)
        return Ended(code, outputs[1], outputs[2], timed_out, seconds=seconds)

    @property
    def _agent(self) -> str:
        return f"{self.container.agent}:{self.container.agent}"

    async def _execute(
        self,
        script: tuple[str, ...],
        stdin: bytes,
        outputs: Mapping[int, Capture],
        **options: Any,
    ) -> int:
        """Run a script that begins with reading a line, and return its exit code."""
        api, words = self.engine.api, ["/bin/sh", "-c", script[0], "sh", *script[1:]]
        made = await self.engine.call(
            api.exec_create, self.container.id, words, stdin=True, **options
        )
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

    async def _kill_all(self) -> None:
        if (await self._perform(_KILL, user="0:0")).strip() != "done":
            raise ComputerFailure("The processes of a container could not be killed.")

    async def _perform(self, script: str, **options: Any) -> str:
        """Run a script of our own, whose output is short."""
        outputs = {1: Capture(_REPORT_BYTES), 2: Capture(_REPORT_BYTES)}
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._execute((script,), b"", outputs, **options)
        except TimeoutError:
            raise ComputerFailure(f"A container did not answer in {_PATIENCE:g} s.") from None
        return outputs[1].text()

    async def _limit_reached(self) -> str:
        report = await self._perform(_COUNT, user=self._agent)
        lines = [line.split() for line in report.splitlines()]
        count = sum(int(words[1]) for words in lines if words[:1] == ["oom_kill"])
        ran_out, self._memory_ran_out = count > self._memory_ran_out, count
        full = any(words[:1] == ["free"] and "0" in words for words in lines)
        return "memory" if ran_out else "disk" if full else ""

"""A person or a script instead of a model: to try tasks out, or to measure people's scores."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import ClassVar, TextIO

from pydantic import ValidationError

from skillopt_ci.aio import off_the_clock
from skillopt_ci.config.loading import explain
from skillopt_ci.config.rollout import HumanConfig, ScriptedConfig
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.limits import Transcript
from skillopt_ci.rollout.solver import Workplace, task_text
from skillopt_ci.rollout.types import AgentError, Asked, Attempt, ModelSaid, Nudged, Step, ToolUsed
from skillopt_ci.sanitize import visible
from skillopt_ci.tasks.task import Task

_HELP = "Type commands for the task's computer; `submit` or `submit ANSWER` ends the work."


@dataclass(frozen=True, slots=True)
class StreamTerminal:
    """Reads lines without a thread in `readline`, which would keep the process from exiting."""

    source: TextIO
    shown: TextIO
    _typed: bytearray = field(default_factory=bytearray, repr=False, compare=False)

    def say(self, text: str) -> None:
        print(text, file=self.shown, flush=True)

    async def ask(self, prompt: str) -> str | None:
        print(prompt, end="", file=self.shown, flush=True)
        descriptor = self.source.fileno()
        while b"\n" not in self._typed:
            await _readable(descriptor)
            if not (part := os.read(descriptor, 65536)):
                break
            self._typed.extend(part)
        if not self._typed:
            return None
        typed, _, self._typed[:] = bytes(self._typed).partition(b"\n")
        return typed.decode(self.source.encoding or "utf-8", "replace").removesuffix("\r")


async def _readable(descriptor: int) -> None:
    """Wait until the descriptor is readable; a file always is."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    with suppress(PermissionError):  # a regular file cannot be watched
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)


@dataclass(frozen=True, slots=True)
class HumanSolver:
    """Shows the tasks on ``terminal``, one at a time, and runs typed commands."""

    settings: HumanConfig
    terminal: StreamTerminal
    turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    name: ClassVar = "human"
    #: Without one, a person answers.
    needs_computer: ClassVar = False

    def identity(self) -> Mapping[str, object]:
        return self.settings.model_dump(mode="json")

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Show task and skill, run commands until `submit`. Raises AgentError if input ends."""
        async with AsyncExitStack() as held:
            with off_the_clock():
                await held.enter_async_context(self.turn)
            read = (Message("system", skill),) if skill.strip() else ()
            talk = Transcript((*read, *task.messages))
            yield Asked(talk.opening)
            self._show(f"── Task {task.id} ──", skill, task_text(task), _HELP)
            nudges, answer = place.nudges, None
            while answer is None:
                line = await self._line()
                word, _, rest = line.partition(" ")
                if word != "submit":
                    command = json.dumps({"command": line})
                    call = ToolCall(f"typed_{len(talk.messages)}", "shell", command)
                    yield talk.add(ModelSaid(Message("assistant", "", tool_calls=(call,)), Usage()))
                    yield talk.add(await self._run(call, line, place))
                    continue
                answer = rest.strip()
                yield talk.add(ModelSaid(Message("assistant", answer), Usage()))
                if nudges and (objection := await place.check_submission()):
                    nudges, answer = nudges - 1, None
                    self._show(objection)
                    yield talk.add(Nudged(objection))
        yield Attempt(talk.messages, answer, n_turns=talk.turns)

    async def _line(self) -> str:
        while (line := await self.terminal.ask("$ ")) is not None:
            if line.strip():
                return line.strip()
        raise AgentError("the input ended before `submit`")

    async def _run(self, call: ToolCall, line: str, place: Workplace) -> ToolUsed:
        if place.computer is None:
            shown = "This task has no computer: there is only `submit ANSWER`."
            self._show(shown)
            return ToolUsed(call, shown)
        result = await place.computer.run(["sh", "-c", line], timeout=self.settings.command_seconds)
        ending = f"[exit code {result.exit_code}]" if result.exit_code else ""
        shown = "\n".join(part for part in (result.stdout, result.stderr, ending) if part)
        self._show(shown)
        return ToolUsed(call, shown, result.exit_code, result.seconds)

    def _show(self, *texts: str) -> None:
        for text in filter(None, texts):
            self.terminal.say(visible(text))


@dataclass(frozen=True, slots=True)
class ScriptedSolver:
    """Runs the configured commands, or those in the task's metadata, without a model."""

    settings: ScriptedConfig
    name: ClassVar = "scripted"

    @property
    def needs_computer(self) -> bool:
        return bool(self.settings.commands)

    def identity(self) -> Mapping[str, object]:
        return self.settings.model_dump(mode="json")

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Run the script. Raises UsageError if the task's own script is invalid."""
        del skill
        own, base = task.metadata.get("script", {}), self.settings.model_dump()
        try:
            script = ScriptedConfig.model_validate(base | own if isinstance(own, dict) else own)
        except ValidationError as error:
            path, fault = explain(error, ScriptedConfig, lambda _: "")[0]
            key = ".".join(map(str, ("metadata", "script", *path)))
            raise UsageError(f"task {task.id!r}: {key}: {fault}") from error
        talk = Transcript(task.messages)
        yield Asked(talk.opening)
        for number, command in enumerate(script.commands):
            if place.computer is None:
                raise UsageError(
                    f"task {task.id!r}: its script has commands, but there is no computer for them",
                    hint="Set `rollout.computer`, and give the task a `computer` block, even `{}`.",
                )
            argv = ("sh", "-c", command) if isinstance(command, str) else command
            call = ToolCall(f"script_{number}", "shell", json.dumps({"command": list(argv)}))
            yield talk.add(ModelSaid(Message("assistant", "", tool_calls=(call,)), Usage()))
            result = await place.computer.run(argv, timeout=script.command_seconds)
            shown = f"[exit code {result.exit_code}]\n{result.stdout}{result.stderr}"
            yield talk.add(ToolUsed(call, shown, result.exit_code, result.seconds))
        yield talk.add(ModelSaid(Message("assistant", script.answer), Usage()))
        yield Attempt(talk.messages, script.answer, n_turns=talk.turns)

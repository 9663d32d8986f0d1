"""A person in the place of a model: to try a task out, or to know what people score."""

import asyncio
import json
import unicodedata
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skillopt_ci.config.rollout import HumanSettings
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.steps import AgentError, Asked, Attempt, ModelSaid, Nudged, Step, ToolUsed
from skillopt_ci.tasks.task import Task

_HELP = "Type commands for the task's computer; `submit` or `submit ANSWER` ends the work."


class Terminal(Protocol):
    """Where the person sits."""

    def say(self, text: str) -> None:
        """Show ``text``, which holds no control characters but line breaks and tabs."""
        ...

    async def ask(self, prompt: str) -> str | None:
        """Return the line that is typed; None at the end of input. May be cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class HumanSolver:
    """Shows each task at ``terminal``, one at a time, and runs what is typed."""

    settings: HumanSettings
    terminal: Terminal
    turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Return the solver's name."""
        return "human"

    @property
    def needs_computer(self) -> bool:
        """Without one, a person answers."""
        return False

    def identity(self) -> Mapping[str, object]:
        """Return the settings: which person it was is not known."""
        return self.settings.model_dump(mode="json")

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Show task and skill, run commands until `submit`. Raises AgentError if input ends."""
        async with self.turn:
            talk = [Message("system", skill), *task.messages]
            yield Asked(tuple(talk))
            self._show(f"── Task {task.id} ──", skill, *(m.content for m in task.messages), _HELP)
            nudges, answer = place.nudges, None
            while answer is None:
                line = await self._line()
                answer, call = _meant(line, len(talk))
                calls = () if call is None else (call,)
                talk.append(Message("assistant", answer or "", tool_calls=calls))
                yield ModelSaid(talk[-1], Usage())
                if call is not None:
                    used = await self._run(call, line, place)
                    talk.append(Message("tool", used.output, tool_call_id=call.id))
                    yield used
                elif nudges and (objection := await place.check_submission()):
                    nudges, answer = nudges - 1, None
                    self._show(objection)
                    talk.append(Message("user", objection))
                    yield Nudged(objection)
        turns = sum(message.role == "assistant" for message in talk)
        yield Attempt(tuple(talk), answer, n_turns=turns)

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
        seconds = self.settings.command_seconds
        result = await place.computer.run(["sh", "-c", line], timeout=seconds)
        ending = f"[exit code {result.exit_code}]" if result.exit_code else ""
        shown = "\n".join(part for part in (result.stdout, result.stderr, ending) if part)
        self._show(shown)
        return ToolUsed(call, shown, result.exit_code, result.seconds)

    def _show(self, *texts: str) -> None:
        for text in filter(None, texts):
            self.terminal.say("".join(map(_harmless, text)))


def _meant(line: str, number: int) -> tuple[str | None, ToolCall | None]:
    """Return the answer that ``line`` submits, or else the call that it asks for."""
    word, _, rest = line.partition(" ")
    if word == "submit":
        return rest.strip(), None
    return None, ToolCall(f"typed_{number}", "shell", json.dumps({"command": line}))


def _harmless(char: str) -> str:
    return char if char in "\n\t" or unicodedata.category(char)[0] != "C" else "�"

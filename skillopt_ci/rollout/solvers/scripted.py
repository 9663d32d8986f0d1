"""A script in the place of a model: commands that are the same whatever the skill says."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from skillopt_ci.config.rollout import ScriptedSettings
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.steps import Asked, Attempt, ModelSaid, Step, ToolUsed
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class ScriptedSolver:
    """Runs its commands, or those of the task's metadata, and answers. Nothing is paid."""

    settings: ScriptedSettings

    @property
    def name(self) -> str:
        """Return the solver's name."""
        return "scripted"

    @property
    def needs_computer(self) -> bool:
        """A script without commands is an answer."""
        return bool(self.settings.commands)

    def identity(self) -> Mapping[str, object]:
        """Return the script."""
        return self.settings.model_dump(mode="json")

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Run the script; raises UsageError for a task whose own one is none."""
        del skill
        script = _script(task, self.settings)
        talk = [*task.messages]
        yield Asked(tuple(talk))
        if script.commands and place.computer is None:
            raise UsageError(
                f"task {task.id!r}: its script has commands, and there is no computer for them",
                hint="Set `rollout.computer`.",
            )
        if place.computer is not None:
            for number, command in enumerate(script.commands):
                argv = ("sh", "-c", command) if isinstance(command, str) else command
                call = ToolCall(f"script_{number}", "shell", json.dumps({"command": list(argv)}))
                talk.append(Message("assistant", "", tool_calls=(call,)))
                yield ModelSaid(talk[-1], Usage())
                result = await place.computer.run(argv, timeout=script.command_seconds)
                shown = f"[exit code {result.exit_code}]\n{result.stdout}{result.stderr}"
                talk.append(Message("tool", shown, tool_call_id=call.id))
                yield ToolUsed(call, shown, result.exit_code, result.seconds)
        talk.append(Message("assistant", script.answer))
        yield ModelSaid(talk[-1], Usage())
        turns = sum(message.role == "assistant" for message in talk)
        yield Attempt(tuple(talk), script.answer, n_turns=turns)


def _script(task: Task, settings: ScriptedSettings) -> ScriptedSettings:
    own = task.metadata.get("script", {})
    if not isinstance(own, dict):
        raise _no_script(task)
    try:
        return ScriptedSettings.model_validate({**settings.model_dump(), **own})
    except ValidationError as error:
        raise _no_script(task) from error


def _no_script(task: Task) -> UsageError:
    return UsageError(
        f"task {task.id!r}: `metadata.script` is no script",
        hint="It has the keys `commands` (a list) and `answer` (a text).",
    )
